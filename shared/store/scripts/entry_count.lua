-- Count a failed attempt, or a start without outcome, of an entry that carries its own work.
-- KEYS attempts   ARGV field ttl   Returns the count.
local n = call('HINCRBY', KEYS[1], ARGV[1], 1)
call('EXPIRE', KEYS[1], ARGV[2])
return n
