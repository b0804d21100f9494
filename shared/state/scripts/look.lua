-- Read an actor again under its lease: a plan that was overtaken is made again, as a new attempt.
-- What called for attention lies in the mail that is read here, so it must not interrupt the new plan too.
-- KEYS header mail   ARGV token   Returns nil when the lease is lost, else {now, header, mail}.
if call('HGET', KEYS[1], 'token') ~= ARGV[1] then return false end
call('HINCRBY', KEYS[1], 'attempt', 1)
call('HDEL', KEYS[1], 'control')
return {now(), call('HGETALL', KEYS[1]), call('ZRANGE', KEYS[2], 0, -1)}
