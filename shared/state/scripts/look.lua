-- Read an actor again under its lease: a plan that was overtaken is made again, as a new attempt.
-- KEYS header mail   ARGV token   Returns nil when the lease is lost, else {now, header, mail}.
if call('HGET', KEYS[1], 'token') ~= ARGV[1] then return false end
call('HINCRBY', KEYS[1], 'attempt', 1)
return {now(), call('HGETALL', KEYS[1]), call('ZRANGE', KEYS[2], 0, -1)}
