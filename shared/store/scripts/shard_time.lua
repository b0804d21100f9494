-- Have the time of a shard reach this one and the clock, and return it: what is told from now on has no earlier id.
-- KEYS bell   ARGV at-least (ms)
return shard_time(KEYS[1], tonumber(ARGV[1]))
