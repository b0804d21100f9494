-- The last id that a stream has given out, and that of its newest entry: the server's own answer has its first and its last
-- entry whole, and a producer may have appended anything.
-- KEYS stream   Returns {last id, id of the newest entry}, '0-0' for none.
if call('EXISTS', KEYS[1]) == 0 then return {'0-0', '0-0'} end
local about, last = call('XINFO', 'STREAM', KEYS[1]), '0-0'
for n = 1, #about, 2 do
  if about[n] == 'last-generated-id' then last = about[n + 1] end
end
local newest = call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
return {last, newest and newest[1] or '0-0'}
