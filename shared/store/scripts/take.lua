-- A worker that has read a wake-up takes the actor's lease and gets header, mail and new transcript in one round trip.
-- A task that has not ended gets its place here, or waits for one in a queue: before anything is done for it. A task that
-- another has started needs none: its parent has one, and waits for it.
-- KEYS header messages signals log stream, then of a task: places queue
-- ARGV wake-id group lease-ms nonce log-position ('': none wanted) most-messages most-bytes actor
--   of a task: active tasks that a session may have, and the tenant
-- Returns {'gone'} | {'leased', ms} | {'ok', now, header, messages, signals, transcript from that position}
local header, messages, signals, log, stream, places, queue = unpack(KEYS)
local current, expires, length, token, attempt, starts, status, place, session, parent =
  unpack(call('HMGET', header, 'wake', 'exp', 'lease', 'token', 'attempt', 'starts', 'status', 'place', 'session', 'parent'))
if current ~= ARGV[1] then
  ack(stream, ARGV[2], ARGV[1], named(ARGV[8]))
  return {'gone'}
end
local t = now()
local left = lease_left(expires, length or ARGV[3], t)
if left > 0 then return {'leased', left} end
local gained = {}
local going_on = status == 'active' or status == 'pending' or status == 'waiting' or status == 'stale'
if places and (place or '') == '' and (parent or '') == '' and going_on then
  local tenant = string.match(ARGV[8], '^[^/]+')
  local own = tenant .. '/' .. (session or '')
  local of_session, of_tenant, wait_in_session, wait_in_tenant =
    unpack(call('HMGET', places, own, tenant, '?' .. own, '?' .. tenant))
  of_session, of_tenant = (of_session or 0) + 1, (of_tenant or 0) + 1
  local held_back = wait_in_session or of_session > tonumber(ARGV[9])
  if not held_back and not wait_in_tenant and of_tenant <= tonumber(ARGV[10]) then
    gained = {'place', 'a'}
    call('HSET', places, own, of_session, tenant, of_tenant)
  else
    local of_own = queue .. ':' .. (session or '')
    expect_kind('zset', of_own, queue)
    gained = {'place', held_back and 's' or 't'}
    if held_back then line_up(places, own, of_own, header .. ' ' .. ARGV[8])
    else
      call('HSET', places, own, of_session)
      line_up(places, tenant, queue, header .. ' ' .. ARGV[8])
    end
  end
end
call('HSET', header, 'token', (token or 0) + 1, 'attempt', (attempt or 0) + 1, 'starts', (starts or 0) + 1,
  'exp', t + tonumber(ARGV[3]), 'lease', ARGV[3], 'nonce', ARGV[4], unpack(gained))
local transcript = {}
if ARGV[5] ~= '' then transcript = call('LRANGE', log, ARGV[5], -1) end
return {'ok', t, call('HGETALL', header), oldest(messages, tonumber(ARGV[6]), tonumber(ARGV[7])),
  call('ZRANGE', signals, 0, -1), transcript}
