-- Read a task whole, as it is at one instant: several reads could see it half removed.
-- KEYS header log steps big   Returns {now, header, log, steps, big}.
return {now(), call('HGETALL', KEYS[1]), call('LRANGE', KEYS[2], 0, -1), call('LRANGE', KEYS[3], 0, -1),
  call('HGETALL', KEYS[4])}
