-- Read an actor again under its lease: a plan that was overtaken is made again, as a new attempt.
-- What called for attention lies in the mail that is read here, so it must not interrupt the new plan too.
-- KEYS header messages signals   ARGV token most-messages most-bytes
-- Returns nil when the lease is lost, else {now, header, messages, signals}.
if not holds(KEYS[1], ARGV[1]) then return false end
call('HINCRBY', KEYS[1], 'attempt', 1)
call('HDEL', KEYS[1], 'control')
return {now(), call('HGETALL', KEYS[1]), oldest(KEYS[2], tonumber(ARGV[2]), tonumber(ARGV[3])), call('ZRANGE', KEYS[3], 0, -1)}
