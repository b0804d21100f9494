-- Acknowledge what was moved and read on, under the lease's token: an unfenced read of a paused holder would swallow
-- entries.
-- KEYS lease stream   ARGV token lease-ms group start ('>' or an id: what a predecessor left pending) count, then ids
-- Returns false when the lease is lost, else the entries.
if call('HGET', KEYS[1], 'token') ~= ARGV[1] then return false end
call('HSET', KEYS[1], 'exp', now() + tonumber(ARGV[2]))
if #ARGV > 5 then call('XACK', KEYS[2], ARGV[3], unpack(ARGV, 6)) end
local reply = call('XREADGROUP', 'GROUP', ARGV[3], 'router', 'COUNT', ARGV[5], 'STREAMS', KEYS[2], ARGV[4])
if not reply then return {} end
return reply[1][2]
