-- Set a timer that is not set yet.
-- KEYS timers header   ARGV member ms header-field ('': none)   Returns whether it was set.
-- The field is the time that the timer counts from: where it lies ahead, the clock has stepped back since, and it is now.
if call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
local since = ARGV[3] ~= '' and tonumber(call('HGET', KEYS[2], ARGV[3]) or '0')
set_timer(KEYS[1], ARGV[1], now() + tonumber(ARGV[2]), now())
if since and since > now() then call('HSET', KEYS[2], ARGV[3], now()) end
return 1
