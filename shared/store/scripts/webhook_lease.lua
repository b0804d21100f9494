-- Take or keep the right to send a shard's events to webhooks. Who has it works alone; that two do so for a while does no
-- harm but double sending, since each write compares.
-- KEYS lease   ARGV holder ms   Returns 1, or 0 when another has it.
local holder = call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
