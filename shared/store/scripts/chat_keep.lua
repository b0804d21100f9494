-- Keep where a conversation stands. The same place again keeps who has claimed it.
-- KEYS place   ARGV session task step ttl
expect_kind('hash', KEYS[1])
local known = call('HMGET', KEYS[1], 'session', 'task', 'step')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or known[3] ~= ARGV[3] then
  call('DEL', KEYS[1])
  call('HSET', KEYS[1], 'session', ARGV[1], 'task', ARGV[2], 'step', ARGV[3])
end
call('EXPIRE', KEYS[1], ARGV[4])
return 1
