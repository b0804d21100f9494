-- Change entries of a registry together, if it is still as its writer has read it.
-- KEYS registry [versions of an entry]...   none, or one for each entry
-- ARGV version-field version-read version-new time kept ttl-s [field entry ('' removes it)]...
-- With no entry its version alone is made anew: whoever has read it looks again. A version is kept of each entry that
-- has changed, the newest first.
-- Returns 1, or 0 when another was quicker.
if (call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
for i = 7, #ARGV, 2 do
  local before, entry, versions = call('HGET', KEYS[1], ARGV[i]) or '', ARGV[i + 1], KEYS[(i - 3) / 2]
  if entry == '' then call('HDEL', KEYS[1], ARGV[i]) else call('HSET', KEYS[1], ARGV[i], entry) end
  if versions and entry ~= before then
    call('LPUSH', versions, '{"at":"' .. ARGV[4] .. '","entry":' .. (entry == '' and 'null' or entry) .. '}')
    call('LTRIM', versions, 0, ARGV[5] - 1)
    call('EXPIRE', versions, ARGV[6])
  end
end
call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
