-- Note how a call of a tool has ended, for its breaker; or ask whether a call may be the one that tries the tool again.
-- KEYS breaker (of a tool and a tenant) changes (their names, by number)
-- ARGV op name call-id failures within-ms trial-ms reason
-- ops: failed, lost (likewise, with its process: all that were lost together are one failure), ok, gone (it has ended without telling anything of the tool), try
-- Returns 1, or 0: of 'try' when another tries it or it is too early, of 'ok' when calls are refused on.
local breaker, changes = KEYS[1], KEYS[2]
local op, name, id, failures, within, trial_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local PAUSE, LONGEST, AHEAD, TOGETHER, NAMES, KEPT = 30000, 600000, 1000, 10000, 10000, 86400
expect_kind('hash', breaker)
expect_kind('zset', changes)
local function changed()
  call('ZADD', changes, (call('ZRANGE', changes, -1, -1, 'WITHSCORES')[2] or 0) + 1, name)
  call('ZREMRANGEBYRANK', changes, 0, -NAMES - 1)
  call('EXPIRE', changes, KEPT)
end
local function open(pause)
  call('HSET', breaker, 'until', now() + pause, 'pause', pause)
  call('HDEL', breaker, 'trial', 'trial_end', 'times')
  call('PEXPIRE', breaker, pause + LONGEST)
end
local opened, pause, trial, trial_end, times = unpack(call('HMGET', breaker, 'until', 'pause', 'trial', 'trial_end', 'times'))
local ends = tonumber(opened or 0)
if ends > now() + LONGEST + AHEAD then ends = now() end -- written before the clock stepped back

if op == 'try' then
  if not opened then return 1 end
  if ends > now() then return 0 end
  local left = tonumber(trial_end or 0) - now()
  if trial and trial ~= id and left > 0 and left <= trial_ms + AHEAD then return 0 end
  call('HSET', breaker, 'trial', id, 'trial_end', now() + trial_ms)
  call('PEXPIRE', breaker, trial_ms + LONGEST)
  changed()
elseif op == 'failed' or op == 'lost' then
  if opened and trial ~= id then return 1 end -- it had begun before
  local last = tonumber(string.match(times or '', '(%d+)$') or 0)
  if op == 'lost' and now() >= last and now() - last < TOGETHER then return 1 end
  call('HINCRBY', breaker, 'row', 1)
  call('HSET', breaker, 'reason', ARGV[7])
  if opened then
    open(math.min(LONGEST, 2 * pause))
  else
    local kept = {}
    for at in string.gmatch(times or '', '%d+') do kept[#kept + 1] = at end
    kept[#kept + 1] = string.format('%.0f', now())
    while #kept > failures do table.remove(kept, 1) end
    local first = tonumber(kept[1])
    if #kept == failures and now() - first <= within and first <= now() + AHEAD then
      open(PAUSE)
    else
      call('HSET', breaker, 'times', table.concat(kept, ' '))
      call('PEXPIRE', breaker, within)
    end
  end
  changed()
elseif op == 'ok' then
  if opened and trial ~= id then return 0 end
  if call('DEL', breaker) == 1 then changed() end
elseif trial == id then
  call('HDEL', breaker, 'trial', 'trial_end')
  changed()
end
return 1
