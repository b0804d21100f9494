-- Give a lock back, if it is still held by this holder.
-- KEYS lock   ARGV holder   Returns 1, or 0 for a lock that has ended or is another's.
if call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
call('DEL', KEYS[1])
return 1
