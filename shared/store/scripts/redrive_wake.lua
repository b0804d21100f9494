-- Wake an actor whose wake-up was dead-lettered, unless it has a current one.
-- KEYS header stream   ARGV actor   Returns {whether there is such an actor, wake-ups added}
expect_kind('hash', KEYS[1])
expect_kind('stream', KEYS[2])
if call('EXISTS', KEYS[1]) == 0 then return {0, 0} end
if (call('HGET', KEYS[1], 'wake') or '') == '' then wake(KEYS[1], KEYS[2], ARGV[1]) end
return {1, woken}
