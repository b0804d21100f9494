-- Write how far a schedule is, if it is still as its writer has read it.
-- KEYS schedule list due set   ARGV member revision-read revision state wake ('': nobody need look) ended (0: not) name
-- Returns 1, or 0 when another was quicker or the schedule is gone.
if call('HGET', KEYS[1], 'revision') ~= ARGV[2] then return 0 end
expect_kind('zset', KEYS[2], KEYS[3], KEYS[4])
call('HSET', KEYS[1], 'state', ARGV[4], 'revision', ARGV[3])
call('ZADD', KEYS[2], ARGV[6], ARGV[7])
if ARGV[5] == '' then
  call('ZREM', KEYS[3], ARGV[1])
  call('ZREM', KEYS[4], ARGV[1])
else
  call('ZADD', KEYS[3], ARGV[5], ARGV[1])
  call('ZADD', KEYS[4], now(), ARGV[1])
end
return 1
