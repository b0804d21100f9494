-- Say dead-lettered messages again in their session, once.
-- KEYS guard header messages wake-stream load index
-- ARGV guard-ttl session-ttl actor tenant session, then messages   Returns {how many were posted, wake-ups added}
expect_kind('hash', KEYS[2], KEYS[5])
expect_kind('zset', KEYS[3], KEYS[6])
expect_kind('stream', KEYS[4])
if not call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1]) then return {0, 0} end
for n = 6, #ARGV do post(KEYS[2], KEYS[3], KEYS[4], ARGV[3], 'user', now() .. '-0 ' .. ARGV[n]) end
count_waiting(KEYS[5], ARGV[4], #ARGV - 5)
call('EXPIRE', KEYS[2], ARGV[2])
call('ZADD', KEYS[6], now(), ARGV[5])
call('EXPIRE', KEYS[6], ARGV[2])
return {#ARGV - 5, woken}
