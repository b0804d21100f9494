-- Become, or stay, the one router that moves inbound entries. The lease's key never ends, so its token never starts again.
-- KEYS lease [the lease of versions before 0.2]   ARGV owner lease-ms
-- Returns nil while another holds the lease, else {token, generation of the inbound stream}.
local lease, old = KEYS[1], KEYS[2]
local t = now()
local owner, expires, length = unpack(call('HMGET', lease, 'owner', 'exp', 'lease'))
if owner ~= ARGV[1] then
  if lease_left(expires, length or ARGV[2], t) > 0 then return false end
  if old then
    -- A router of such a version may hold it (for 600 s at most), and none may take it from now on.
    local holder, until_then, token = unpack(call('HMGET', old, 'owner', 'exp', 'token'))
    if holder ~= 'moved' and lease_left(until_then, 600000, t) > 0 then return false end
    if tonumber(token or '0') > tonumber(call('HGET', lease, 'token') or '0') then call('HSET', lease, 'token', token) end
    call('HSET', old, 'owner', 'moved', 'exp', '9007199254740991')
    call('PERSIST', old)
  end
  call('HINCRBY', lease, 'token', 1)
end
call('HSET', lease, 'owner', ARGV[1], 'exp', t + tonumber(ARGV[2]), 'lease', ARGV[2])
local token, generation = unpack(call('HMGET', lease, 'token', 'generation'))
return {tonumber(token), generation or ''}
