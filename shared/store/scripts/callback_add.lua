-- Note the callback of a message before the message is appended: the events of its turn are sent there.
-- KEYS callback callbacks   ARGV id webhook ttl most
-- Returns 1, 0 when it is known, or -1 when there are too many.
if call('EXISTS', KEYS[1]) == 1 then return 0 end
if call('ZCARD', KEYS[2]) >= tonumber(ARGV[4]) then return -1 end
local last = call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
call('ZADD', KEYS[2], (last or 0) + 1, ARGV[1])
call('EXPIRE', KEYS[2], ARGV[3])
return 1
