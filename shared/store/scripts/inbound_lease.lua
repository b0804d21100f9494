-- Become, or stay, the one router that moves inbound entries. The lease's key never ends, so its token never starts again.
-- KEYS lease   ARGV owner lease-ms
-- Returns nil while another holds the lease, else {token, generation of the inbound stream}.
local lease = KEYS[1]
local t = now()
local owner, expires, length = unpack(call('HMGET', lease, 'owner', 'exp', 'lease'))
if owner ~= ARGV[1] then
  if lease_left(expires, length or ARGV[2], t) > 0 then return false end
  call('HINCRBY', lease, 'token', 1)
end
call('HSET', lease, 'owner', ARGV[1], 'exp', t + tonumber(ARGV[2]), 'lease', ARGV[2])
local token, generation = unpack(call('HMGET', lease, 'token', 'generation'))
return {tonumber(token), generation or ''}
