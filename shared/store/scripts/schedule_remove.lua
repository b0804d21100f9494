-- Remove a schedule from everywhere.
-- KEYS schedule list due set   ARGV member name   Returns whether there was one.
call('ZREM', KEYS[2], ARGV[2])
call('ZREM', KEYS[3], ARGV[1])
call('ZREM', KEYS[4], ARGV[1])
return call('DEL', KEYS[1])
