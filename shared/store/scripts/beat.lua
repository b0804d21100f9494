-- Keep a lease: only its holder may. Extends it, keeps the wake-up from being reclaimed, brings back control mail.
-- KEYS header stream   ARGV token lease-ms group consumer wake-id
-- Returns nil when the lease is lost, else the kind of control mail that waits ('' for none).
local header = KEYS[1]
if not holds(header, ARGV[1]) or call('HGET', header, 'wake') ~= ARGV[5] then return false end
call('HSET', header, 'exp', now() + tonumber(ARGV[2]), 'lease', ARGV[2])
call('XCLAIM', KEYS[2], ARGV[3], ARGV[4], 0, ARGV[5], 'JUSTID')
return call('HGET', header, 'control') or ''
