-- Claim the end of a conversation for the message that goes on from there: the first that comes has it.
-- KEYS place   ARGV message-id session-of-a-new-place ttl
expect_kind('hash', KEYS[1])
if call('EXISTS', KEYS[1]) == 0 then
  if ARGV[2] == '' then return {} end
  call('HSET', KEYS[1], 'session', ARGV[2])
end
call('HSETNX', KEYS[1], 'next', ARGV[1])
call('EXPIRE', KEYS[1], ARGV[3])
return call('HMGET', KEYS[1], 'session', 'task', 'step', 'next')
