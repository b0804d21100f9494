-- Have the lanes of webhooks due now that got their times before the clock stepped back: too early does no harm.
-- KEYS waiting   ARGV lead (ms that `set` may be ahead), then webhooks   Returns for how many webhooks.
local waiting, restarted = KEYS[1], 0
local t = now()
for i = 2, #ARGV do
  local state, due = webhook_keys(waiting, ARGV[i])
  if tonumber(call('HGET', state, 'set') or 0) > t + tonumber(ARGV[1]) then
    for _, lane in ipairs(call('ZRANGEBYSCORE', due, '(' .. t, '+inf')) do call('ZADD', due, t, lane) end
    call('HSET', state, 'set', t)
    restarted = restarted + 1
  end
  settle_webhook(waiting, ARGV[i])
end
return restarted
