-- A worker that has read a wake-up takes the actor's lease and gets header, mailbox and new transcript in one round trip.
-- KEYS header mail log stream   ARGV wake-id group lease-ms log-position ('': none wanted) mail-limit (0: all)
-- Returns {'gone'} | {'leased', ms} | {'ok', now, header, mail, transcript from that position}
local header, mail, log, stream = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if call('HGET', header, 'wake') ~= ARGV[1] then
  call('XACK', stream, ARGV[2], ARGV[1])
  return {'gone'}
end
local t = now()
local expires = tonumber(call('HGET', header, 'exp') or '0')
if expires > t then return {'leased', expires - t} end
call('HINCRBY', header, 'token', 1)
call('HINCRBY', header, 'attempt', 1)
call('HINCRBY', header, 'starts', 1)
call('HSET', header, 'exp', t + tonumber(ARGV[3]))
local transcript = {}
if ARGV[4] ~= '' then transcript = call('LRANGE', log, ARGV[4], -1) end
return {'ok', t, call('HGETALL', header), call('ZRANGE', mail, 0, tonumber(ARGV[5]) - 1), transcript}
