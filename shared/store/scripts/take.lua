-- A worker that has read a wake-up takes the actor's lease and gets header, mail and new transcript in one round trip.
-- KEYS header messages signals log stream
-- ARGV wake-id group lease-ms nonce log-position ('': none wanted) most-messages most-bytes actor
-- Returns {'gone'} | {'leased', ms} | {'ok', now, header, messages, signals, transcript from that position}
local header, messages, signals, log, stream = unpack(KEYS)
local current, expires, length, token, attempt, starts =
  unpack(call('HMGET', header, 'wake', 'exp', 'lease', 'token', 'attempt', 'starts'))
if current ~= ARGV[1] then
  ack(stream, ARGV[2], ARGV[1], named(ARGV[8]))
  return {'gone'}
end
local t = now()
local left = lease_left(expires, length or ARGV[3], t)
if left > 0 then return {'leased', left} end
call('HSET', header, 'token', (token or 0) + 1, 'attempt', (attempt or 0) + 1, 'starts', (starts or 0) + 1,
  'exp', t + tonumber(ARGV[3]), 'lease', ARGV[3], 'nonce', ARGV[4])
local transcript = {}
if ARGV[5] ~= '' then transcript = call('LRANGE', log, ARGV[5], -1) end
return {'ok', t, call('HGETALL', header), oldest(messages, tonumber(ARGV[6]), tonumber(ARGV[7])),
  call('ZRANGE', signals, 0, -1), transcript}
