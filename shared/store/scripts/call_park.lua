-- Lay a call aside that may not run yet: it leaves its queue, and nobody holds it. What has started already is left, when it
-- may not start twice: its outcome has to be found out.
-- KEYS calls queue waiting   ARGV call-id entry-id group consumer effect value   Returns 'closed' | 'taken' | 'started' | 'ok'
expect_kind('hash', KEYS[3])
local state = call('HGET', KEYS[1], ARGV[1])
if not state then
  ack(KEYS[2], ARGV[3], ARGV[2], ARGV[1])
  return 'closed'
end
if ARGV[5] == 'unsafe' and string.match(state, '^started ') then return 'started' end
if not call('XPENDING', KEYS[2], ARGV[3], ARGV[2], ARGV[2], 1, ARGV[4])[1] then return 'taken' end
if ack(KEYS[2], ARGV[3], ARGV[2], ARGV[1]) == 0 then return 'taken' end
call('HSET', KEYS[3], ARGV[1], ARGV[6])
return 'ok'
