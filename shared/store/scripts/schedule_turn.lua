-- Take the turn of looking after the schedules, or keep it.
-- KEYS turn   ARGV holder ms   Returns whether the holder has it.
local holder = call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
