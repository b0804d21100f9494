-- Hand an actor back untouched: another worker can take it at once, and nothing is counted.
-- KEYS header stream   ARGV wake-id group actor lease-ms token ('' when the wake-up was never taken)
local header, stream = KEYS[1], KEYS[2]
expect_kind('stream', stream)
if call('HGET', header, 'wake') ~= ARGV[1] then
  ack(stream, ARGV[2], ARGV[1], named(ARGV[3]))
  return 'gone'
end
if ARGV[5] == '' then
  local expires, length = unpack(call('HMGET', header, 'exp', 'lease'))
  if lease_left(expires, length or ARGV[4], now()) > 0 then return 'leased' end
else
  if not holds(header, ARGV[5]) then return 'lost' end
  call('HSET', header, 'exp', 0)
  call('HINCRBY', header, 'starts', -1)
end
call('XACK', stream, ARGV[2], ARGV[1])
wake(header, stream, ARGV[3])
return 'ok'
