-- Replace what is kept of an address for the updates of a task, if it is still as it was read.
-- KEYS configs   ARGV name read new   Returns 1, or 0 when it is another by now.
if call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
