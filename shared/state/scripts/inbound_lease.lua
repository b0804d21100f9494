-- Become, or stay, the one router that moves inbound entries.
-- KEYS lease   ARGV owner lease-ms   Returns the fencing token, or 0 when another holds the lease.
local owner, expires, token = unpack(call('HMGET', KEYS[1], 'owner', 'exp', 'token'))
local t = now()
if owner ~= ARGV[1] then
  if tonumber(expires or '0') > t then return 0 end
  token = call('HINCRBY', KEYS[1], 'token', 1)
end
call('HSET', KEYS[1], 'owner', ARGV[1], 'exp', t + tonumber(ARGV[2]))
call('PEXPIRE', KEYS[1], 86400000)
return tonumber(token)
