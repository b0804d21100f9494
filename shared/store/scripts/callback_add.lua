-- Note the callback of a message before the message gets to its session: the events of its turn are sent there.
-- KEYS callback callbacks accepted   ARGV id webhook ttl most tenant
-- Returns 1, 0 when it is known or its message was accepted before, -1 when there are too many, -2 when of the tenant.
if call('EXISTS', KEYS[1], KEYS[3]) > 0 then return 0 end
local outcome = follow_turn(KEYS[2], ARGV[1], ARGV[3], ARGV[4], ARGV[5])
if outcome == 1 then call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3]) end
return outcome
