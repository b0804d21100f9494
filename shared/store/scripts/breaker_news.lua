-- Read which breakers of tools have changed since one last looked.
-- KEYS changes   ARGV number of the last change that is known, and what the names of breakers begin with
-- Returns {the number now, 1 when what was known before is not to be trusted, then of each: name, whether it is there, ms until
-- a trial or '' where it is not open, failures in a row, the last reason, ms for which a trial goes on}
local last = tonumber(call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] or 0)
local since = tonumber(ARGV[1])
local lost = since > last -- Redis has forgotten changes: their numbers are given again
local news = call('ZRANGEBYSCORE', KEYS[1], '(' .. (lost and 0 or since), '+inf', 'WITHSCORES', 'LIMIT', 0, 200)
local found = {lost and 0 or since, lost and 1 or 0}
for n = 1, #news, 2 do
  local breaker = ARGV[2] .. news[n]
  local opened, row, reason, trial_end = unpack(call('HMGET', breaker, 'until', 'row', 'reason', 'trial_end'))
  found[1] = tonumber(news[n + 1])
  for _, each in ipairs({
    news[n], call('EXISTS', breaker), opened and string.format('%.0f', math.max(0, opened - now())) or '', row or '0',
    reason or '', trial_end and string.format('%.0f', math.max(0, trial_end - now())) or '0',
  }) do found[#found + 1] = each end
end
return found
