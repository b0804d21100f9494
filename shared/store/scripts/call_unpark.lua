-- Put a call that was laid aside (call_park) back into its queue, once.
-- KEYS waiting calls queue   ARGV call-id   Returns 'closed' | 'gone' (it is in its queue already, or runs) | 'ok'
local kept = call('HGET', KEYS[1], ARGV[1])
if call('HEXISTS', KEYS[2], ARGV[1]) == 0 then
  call('HDEL', KEYS[1], ARGV[1])
  return 'closed'
end
if not kept then return 'gone' end
expect_kind('stream', KEYS[3])
call('HDEL', KEYS[1], ARGV[1])
call('XADD', KEYS[3], '*', 'data', string.match(kept, '^%S+ (.*)$'))
return 'ok'
