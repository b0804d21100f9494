-- Take tokens of a day's budget of extraction, for the system and for one tenant, if both have as many left.
-- KEYS spending   ARGV tenant tokens most most-of-tenant tasks ttl
-- Returns {1}, or {0, tasks of the tenant that were refused before, tokens of the system, tokens of the tenant}.
expect_kind('hash', KEYS[1])
local mine, refused = 'tokens:' .. ARGV[1], 'refused:' .. ARGV[1]
local taken, tokens = call('HMGET', KEYS[1], 'tokens', mine, refused), tonumber(ARGV[2])
local of_all, of_tenant = tonumber(taken[1] or 0), tonumber(taken[2] or 0)
call('HSET', KEYS[1], 'most', ARGV[4])
if of_all + tokens > tonumber(ARGV[3]) or of_tenant + tokens > tonumber(ARGV[4]) then
  call('HINCRBY', KEYS[1], refused, ARGV[5])
  call('EXPIRE', KEYS[1], ARGV[6])
  return {0, tonumber(taken[3] or 0), of_all, of_tenant}
end
call('HINCRBY', KEYS[1], 'tokens', tokens)
call('HINCRBY', KEYS[1], mine, tokens)
call('EXPIRE', KEYS[1], ARGV[6])
return {1}
