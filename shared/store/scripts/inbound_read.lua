-- Acknowledge what was moved and read on, under the lease: an unfenced read of a paused holder would swallow entries.
-- KEYS lease stream
-- ARGV owner token lease-ms group start ('>' or an id: what a predecessor left pending) count, then ids
-- Returns nil when the lease is lost, else {time in ms, entries}.
local owner, token = unpack(call('HMGET', KEYS[1], 'owner', 'token'))
if owner ~= ARGV[1] or token ~= ARGV[2] then return false end
local t = now()
call('HSET', KEYS[1], 'exp', t + tonumber(ARGV[3]), 'lease', ARGV[3])
if #ARGV > 6 then call('XACK', KEYS[2], ARGV[4], unpack(ARGV, 7)) end
local reply = call('XREADGROUP', 'GROUP', ARGV[4], 'router', 'COUNT', ARGV[6], 'STREAMS', KEYS[2], ARGV[5])
return {t, reply and reply[1][2] or {}}
