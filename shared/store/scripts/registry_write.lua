-- Change one entry of a registry, if it is still as its writer has read it.
-- KEYS registry   ARGV version-field version-read version-new field ('': none, its version alone is made anew) entry ('' removes it)
-- Returns 1, or 0 when another was quicker.
if (call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
if ARGV[4] == '' then -- whoever has read it looks again
elseif ARGV[5] == '' then call('HDEL', KEYS[1], ARGV[4]) else call('HSET', KEYS[1], ARGV[4], ARGV[5]) end
call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
