-- Begin a timer anew that was set in the future: the server's clock has stepped back since. What has passed of it by then
-- nobody knows; from now on it is as long as it was. The time in the task's header that it counts from moves with it.
-- KEYS timers header   ARGV member header-field ('': none) ahead-ms   Returns whether it begins anew.
local due, set_at = call('ZSCORE', KEYS[1], ARGV[1]), call('ZSCORE', KEYS[1] .. ':set', ARGV[1])
if not due then
  call('ZREM', KEYS[1] .. ':set', ARGV[1]) -- somebody has removed the timer alone
  return 0
end
if not set_at or tonumber(set_at) <= now() + tonumber(ARGV[3]) then return 0 end
local length = math.max(0, tonumber(due) - tonumber(set_at))
set_timer(KEYS[1], ARGV[1], now() + length, now())
if ARGV[2] ~= '' and length > 0 then
  local since = tonumber(redis.pcall('HGET', KEYS[2], ARGV[2]) or '0') -- somebody else's key stops no other timer
  if since and since > now() then call('HSET', KEYS[2], ARGV[2], now()) end
end
return 1
