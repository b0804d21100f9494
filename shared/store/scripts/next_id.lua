-- The id of the first entry of a stream after another, without the entry, which may be large; nothing when there is none.
-- KEYS stream   ARGV id
local found = call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', 1)[1]
return found and found[1]
