-- Add a schedule; of very many, the one that ended first goes.
-- KEYS schedule list due set   ARGV member spec state revision wake limit name prefix
--   prefix: begins the names of the tenant's schedules
-- Returns 'added' | 'taken' (there is one of this name) | 'full'
if call('EXISTS', KEYS[1]) == 1 then return 'taken' end
expect_kind('zset', KEYS[2], KEYS[3], KEYS[4])
if call('ZCARD', KEYS[2]) >= tonumber(ARGV[6]) then
  local first = call('ZRANGEBYSCORE', KEYS[2], '(0', '+inf', 'LIMIT', 0, 1)[1]
  if not first then return 'full' end
  local tenant = string.match(ARGV[1], '^[^/]+/')
  call('DEL', ARGV[8] .. first)
  call('ZREM', KEYS[2], first)
  call('ZREM', KEYS[3], tenant .. first)
  call('ZREM', KEYS[4], tenant .. first)
end
call('HSET', KEYS[1], 'spec', ARGV[2], 'state', ARGV[3], 'revision', ARGV[4])
call('ZADD', KEYS[2], 0, ARGV[7])
call('ZADD', KEYS[3], ARGV[5], ARGV[1])
call('ZADD', KEYS[4], now(), ARGV[1])
return 'added'
