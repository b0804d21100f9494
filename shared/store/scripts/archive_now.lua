-- Archive a task at once if it has ended: its grace time ends now. The end is named, so that it does not mean a later one.
-- KEYS header timers   ARGV timer-member
-- Returns the status it has, or 'none'.
local status = status_of(KEYS[1])
if status == 'completed' or status == 'failed' or status == 'cancelled' then
  expect_kind('zset', KEYS[2])
  call('HSET', KEYS[1], 'archive_of', call('HGET', KEYS[1], 'ended_at') or 0)
  set_timer(KEYS[2], ARGV[1], now(), now())
end
return status
