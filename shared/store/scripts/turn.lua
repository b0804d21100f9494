-- Take, keep or leave a turn that one process has at a time.
-- KEYS turn   ARGV who ms ('0' leaves it)
-- Returns 1 while the turn is the caller's, else 0. A turn that still lasts for longer than one may was taken before the
-- clock stepped back: it is over.
local ms = tonumber(ARGV[2])
local whose, left = call('GET', KEYS[1]), call('PTTL', KEYS[1])
if ms == 0 then
  if whose == ARGV[1] then call('DEL', KEYS[1]) end
  return 0
end
if whose and whose ~= ARGV[1] and left >= 0 and left <= ms then return 0 end
call('SET', KEYS[1], ARGV[1], 'PX', ms)
return 1
