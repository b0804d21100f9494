-- Begin to redrive a dead letter. Who asks first says what is sent, so that a repeat ends what a killed one has begun.
-- KEYS dead claim   ARGV entry-id edit ttl
-- Returns {'gone'} | {'done'} (it was redriven before) | {'ok', the edit that counts}
local begun = call('GET', KEYS[2])
if begun == 'done' then return {'done'} end
if #call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then return {'gone'} end
if begun then return {'ok', string.sub(begun, 2)} end
call('SET', KEYS[2], '+' .. ARGV[2], 'EX', ARGV[3])
return {'ok', ARGV[2]}
