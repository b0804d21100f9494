-- Keep a lease: only its holder may. Extends it, keeps the wake-up from being reclaimed, brings back control mail.
-- KEYS header stream, then messages where news of them is wanted   ARGV token lease-ms group consumer wake-id, then known
--   known: a message with a higher number is news
-- Returns nil when the lease is lost, else the kind of control mail that waits, or 'user' for news ('' for neither).
local header = KEYS[1]
if not holds(header, ARGV[1]) or call('HGET', header, 'wake') ~= ARGV[5] then return false end
call('HSET', header, 'exp', now() + tonumber(ARGV[2]), 'lease', ARGV[2])
call('XCLAIM', KEYS[2], ARGV[3], ARGV[4], 0, ARGV[5], 'JUSTID')
local control = call('HGET', header, 'control') or ''
if control == '' and ARGV[6] and call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[6], '+inf', 'LIMIT', 0, 1)[1] then return 'user' end
return control
