-- Become the one process that finds out whether a model is well again.
-- KEYS probe   ARGV ms   Returns 1, or 0 while another does. A probe that still lasts for longer than one may was begun
-- before the clock stepped back: it is over.
local left = call('PTTL', KEYS[1])
if left > 0 and left <= tonumber(ARGV[1]) then return 0 end
call('SET', KEYS[1], 1, 'PX', ARGV[1])
return 1
