-- Read what was said in a task, from an entry on, as it is at one instant.
-- KEYS header log erased   ARGV entry (0: the first)   Returns {now, header, log, 1 if it was erased}.
return {now(), call('HGETALL', KEYS[1]), call('LRANGE', KEYS[2], ARGV[1], -1), call('EXISTS', KEYS[3])}
