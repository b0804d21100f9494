-- Let calls of a limited tool run: so many at once, and so many starts within a time, over all workers. Those that wait are
-- served tenant by tenant, in turn. A call without a place has no worker: it lies in its shard (call_park), from where whoever
-- is told of its turn puts it back into its queue (call_unpark). Its place is kept for it meanwhile, and goes to it again when
-- it does not come: whoever was told may have died.
-- KEYS places (by their end) holders (call to worker, '' until it has come) starts (by time) counts turns (of tenants)
-- ARGV op concurrency ('0': any) rate ('0': any) window-ms lease-ms worker, then calls: SHARD QUEUE TENANT/TASK CALL ROUND
-- ops: enter (one call wants to run), line_up (calls wait), leave (they have ended), beat (they run still), look
-- Returns {1 when the call that enters may run, ms until this is worth another look or -1 when no call waits or runs, how many wait (only
-- of 'look', else -1), calls whose turn has come...}
local places, holders, starts, counts, turns = unpack(KEYS)
local op, worker = ARGV[1], ARGV[6]
local most, rate, window, lease = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local COMING, AHEAD, BATCH, KEPT = 5000, 1000, 50, 86400 -- ahead: clocks are set back by less without a step
expect_kind('hash', holders, counts)
expect_kind('zset', places, starts, turns)
local function line_of(tenant) return turns .. ':' .. tenant end
local function number() return call('HINCRBY', counts, 'n', 1) end

local function line_up(ref, first)
  local tenant = string.match(ref, '^%d+ %S+ ([^/ ]+)/')
  local line, n = line_of(tenant), number()
  if first then
    call('ZADD', line, (call('ZRANGE', line, 0, 0, 'WITHSCORES')[2] or n) - 1, ref)
    call('ZADD', turns, (call('ZRANGE', turns, 0, 0, 'WITHSCORES')[2] or n) - 1, tenant)
  else
    call('ZADD', line, 'NX', n, ref)
    call('ZADD', turns, 'NX', n, tenant)
  end
  call('EXPIRE', line, KEPT)
end
local function free(ref)
  call('ZREM', places, ref)
  call('HDEL', holders, ref)
  call('ZREM', starts, ref) -- of a call whose turn had come and that has not started
end

-- What ends later than it can was written before the clock stepped back. Where nobody was heard of for long, nobody could
-- beat: Redis was away, or its clock stepped on. What runs gets its time once more then.
local function tidy()
  local silent = now() - tonumber(call('HGET', counts, 'seen') or now()) > lease / 2
  local from = silent and '-inf' or '(' .. now() + math.max(lease, COMING) + AHEAD
  for _, ref in ipairs(call('ZRANGEBYSCORE', places, from, '+inf')) do call('ZADD', places, now() + lease, ref) end
  for _, ref in ipairs(call('ZRANGEBYSCORE', places, '-inf', now(), 'LIMIT', 0, 1000)) do
    local coming = call('HGET', holders, ref) == ''
    free(ref)
    if coming then line_up(ref, true) end
  end
  for _, start in ipairs(call('ZRANGEBYSCORE', starts, '(' .. now() + AHEAD, '+inf')) do call('ZADD', starts, now(), start) end
  call('ZREMRANGEBYSCORE', starts, '-inf', now() - window)
  call('HSET', counts, 'seen', now())
end
local function may_start() return rate == 0 or call('ZCARD', starts) < rate end
local function is_room() return (most == 0 or call('ZCARD', places) < most) and may_start() end

local told = {}
local function serve() -- those who wait, as long as there is room
  while #told < BATCH and is_room() do
    local tenant = call('ZRANGE', turns, 0, 0)[1]
    if not tenant then return end
    local ref = call('ZPOPMIN', line_of(tenant))[1]
    if call('EXISTS', line_of(tenant)) == 1 then call('ZADD', turns, number(), tenant) else call('ZREM', turns, tenant) end
    if ref then
      call('ZADD', places, now() + COMING, ref)
      call('HSET', holders, ref, '')
      if rate > 0 then call('ZADD', starts, now(), ref) end
      told[#told + 1] = ref
    end
  end
end
local function begin(ref)
  call('ZREM', starts, ref)
  call('ZADD', places, now() + lease, ref)
  call('HSET', holders, ref, worker)
  if rate > 0 then call('ZADD', starts, now(), ref .. ' ' .. number()) end
  return 1
end
local function enter(ref)
  local holder = call('HGET', holders, ref)
  if holder == worker then return 1 end -- the reply was lost
  if not holder then
    serve()
    if call('HGET', holders, ref) == '' then
      for n = #told, 1, -1 do if told[n] == ref then table.remove(told, n) end end
      return begin(ref)
    end
    return call('ZCARD', turns) == 0 and is_room() and begin(ref) or 0
  end
  call('ZREM', starts, ref) -- its turn has come, or its worker has fallen silent
  if may_start() then return begin(ref) end
  free(ref)
  line_up(ref, true)
  return 0
end

tidy()
local runs = 0
if op == 'enter' then runs = enter(ARGV[7]) end
for n = 7, #ARGV do
  local ref = ARGV[n]
  local holder = call('HGET', holders, ref)
  if op == 'line_up' and not holder then line_up(ref)
  elseif op == 'leave' and holder == worker then free(ref)
  elseif op == 'beat' and (not holder or holder == worker) then
    call('ZADD', places, now() + lease, ref)
    call('HSET', holders, ref, worker)
  end
end
serve()
for _, key in ipairs(KEYS) do call('EXPIRE', key, KEPT) end
local place = call('ZRANGE', places, 0, 0, 'WITHSCORES')[2]
local wait, waiting = place and lease / 4 or -1, -1
if call('ZCARD', turns) > 0 then
  local start = call('ZRANGE', starts, 0, 0, 'WITHSCORES')[2]
  if is_room() then wait = 0
  elseif may_start() then wait = place - now()
  else wait = start + window - now() end
  wait = math.max(1, math.min(wait, lease / 4))
end
if op == 'look' then
  waiting = 0
  for _, tenant in ipairs(call('ZRANGE', turns, 0, 999)) do waiting = waiting + call('ZCARD', line_of(tenant)) end
end
return {runs, math.ceil(wait), waiting, unpack(told)}
