-- Change entries of a registry together, if it is still as its writer has read it.
-- KEYS registry   ARGV version-field version-read version-new [field entry ('' removes it)]...
-- With no entry its version alone is made anew: whoever has read it looks again.
-- Returns 1, or 0 when another was quicker.
if (call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
for i = 4, #ARGV, 2 do
  if ARGV[i + 1] == '' then call('HDEL', KEYS[1], ARGV[i]) else call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
