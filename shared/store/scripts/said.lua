-- Read what was said in a task, as it is at one instant.
-- KEYS header log   Returns {header, log}.
return {call('HGETALL', KEYS[1]), call('LRANGE', KEYS[2], 0, -1)}
