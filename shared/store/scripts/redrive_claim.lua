-- Begin to redrive a dead letter: for a while nobody else redrives it with something else, or discards it.
-- KEYS dead claim   ARGV entry-id edit ttl   Returns 'gone' | 'done' (it was redriven before) | 'busy' | 'ok'
local begun = call('GET', KEYS[2])
if begun == 'done' then return 'done' end
if #call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then return 'gone' end
if begun and begun ~= '+' .. ARGV[2] then return 'busy' end
call('SET', KEYS[2], '+' .. ARGV[2], 'EX', ARGV[3])
return 'ok'
