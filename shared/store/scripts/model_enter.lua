-- Take one of a model's places. Those who wait go first, in the order in which they came, as long as they come back.
-- KEYS places waiting back   ARGV limit lease-ms place caller most-waiting ('0': do not wait)
-- Returns 0 with a place, else after how many ms to ask again.
local limit, lease, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[5])
local SOON, LATE, GONE, FIRST, LONGEST = 300, 2000, 10000, 250, 5000
local AHEAD = 1000 -- clocks are set back by less without a step
expect_kind('zset', KEYS[1], KEYS[2], KEYS[3])
-- What ends or comes back later than it can was written before the clock stepped back: it is given its whole time once more.
local function bring_back(key, length)
  for _, member in ipairs(call('ZRANGEBYSCORE', key, '(' .. now() + length + AHEAD, '+inf', 'LIMIT', 0, 1000)) do
    call('ZADD', key, now() + length, member)
  end
end
bring_back(KEYS[1], lease)
bring_back(KEYS[3], LONGEST)
call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now())
for _, gone in ipairs(call('ZRANGEBYSCORE', KEYS[3], '-inf', now() - GONE, 'LIMIT', 0, 1000)) do
  call('ZREM', KEYS[2], gone)
  call('ZREM', KEYS[3], gone)
end
local rank = call('ZRANK', KEYS[2], ARGV[4])
local ahead = rank or call('ZCARD', KEYS[2])
local free = limit - call('ZCARD', KEYS[1])
if call('ZSCORE', KEYS[1], ARGV[3]) then free = free + 1 end
if free > 0 and ahead >= free then -- only places that those ahead come for in a moment are kept for them
  local soon = 0
  for _, other in ipairs(call('ZRANGE', KEYS[2], 0, math.min(ahead, 4 * limit) - 1)) do
    local back = tonumber(call('ZSCORE', KEYS[3], other) or 0)
    if back >= now() - LATE and back <= now() + SOON then soon = soon + 1 end
  end
  if soon < free then ahead = 0 end
end
if free > ahead then
  call('ZADD', KEYS[1], now() + lease, ARGV[3])
  call('ZREM', KEYS[2], ARGV[4])
  call('ZREM', KEYS[3], ARGV[4])
  call('PEXPIRE', KEYS[1], lease)
  return 0
end
local pause = math.min(LONGEST, FIRST * math.max(1, math.ceil((ahead + 1) / limit)))
if rank or call('ZCARD', KEYS[2]) < most then
  if not rank then -- behind the last one, also when the clock has stepped back since that came
    local last = call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
    call('ZADD', KEYS[2], math.max(now(), (tonumber(last) or 0) + 1), ARGV[4])
  end
  call('ZADD', KEYS[3], now() + pause, ARGV[4])
  call('PEXPIRE', KEYS[2], LONGEST + GONE)
  call('PEXPIRE', KEYS[3], LONGEST + GONE)
end
return pause
