-- Say dead-lettered messages again in their session, once.
-- KEYS guard header messages wake-stream load index dedup, then the marks of what may have been erased
-- ARGV guard-ttl session-ttl actor tenant session dedup-ttl new ('1' for a message that was never accepted) letter-ms, then
--   messages
-- Returns {how many were posted, wake-ups added}; -1: a message of that id has been accepted meanwhile; -2: what the letter
-- was about has been erased since
expect_kind('hash', KEYS[2], KEYS[5])
expect_kind('zset', KEYS[3], KEYS[6])
expect_kind('stream', KEYS[4])
if call('EXISTS', KEYS[1]) == 1 then return {0, 0} end
for n = 8, #KEYS do
  local at = call('HGET', KEYS[n], 'at')
  if at and tonumber(at) >= tonumber(ARGV[8]) then return {-2, 0} end
end
if ARGV[7] == '1' and not call('SET', KEYS[7], now() .. '-0', 'NX', 'EX', ARGV[6]) then return {-1, 0} end
call('SET', KEYS[1], '1', 'EX', ARGV[1])
for n = 9, #ARGV do post(KEYS[2], KEYS[3], KEYS[4], ARGV[3], 'user', now() .. '-0 ' .. ARGV[n]) end
count_waiting(KEYS[5], ARGV[4], #ARGV - 8)
call('EXPIRE', KEYS[2], ARGV[2])
call('EXPIRE', KEYS[3], ARGV[2])
call('ZADD', KEYS[6], now(), ARGV[5])
call('EXPIRE', KEYS[6], ARGV[2])
return {#ARGV - 8, woken}
