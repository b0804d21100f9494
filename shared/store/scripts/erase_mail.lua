-- Remove messages of an erased user that wait in a session. A router that decides on one just now decides again.
-- KEYS session-header messages load   ARGV tenant message...   Returns how many were there.
local gone = 0
for n = 2, #ARGV do gone = gone + call('ZREM', KEYS[2], ARGV[n]) end
if gone > 0 then
  count_waiting(KEYS[3], ARGV[1], -gone)
  if call('EXISTS', KEYS[1]) == 1 then call('HINCRBY', KEYS[1], 'v', 1) end
end
return gone
