-- Turn one due timer into mail (or, for the archiver, into a wake-up of its own streams). Fires once: the removal decides.
-- What goes on again is remembered after its next end. The mark says which end the archiver was told of.
-- KEYS timers header signals wake-stream archive-stream remember-stream   ARGV member kind actor
-- Returns {whether it fired, wake-ups added}
local due = call('ZSCORE', KEYS[1], ARGV[1])
if not due or tonumber(due) > now() then return {0, 0} end -- fired by another, or moved since it was found due
expect_kind('hash', KEYS[2])
expect_kind('zset', KEYS[3])
expect_kind('stream', KEYS[4], KEYS[5], KEYS[6])
remove_timers(KEYS[1], ARGV[1])
if call('EXISTS', KEYS[2]) == 0 then return {0, 0} end
if ARGV[2] == 'archive' then
  add_wake_up(KEYS[5], ARGV[3])
elseif ARGV[2] == 'remember' then
  local status = status_of(KEYS[2])
  if status ~= 'completed' and status ~= 'failed' and status ~= 'cancelled' then return {0, 0} end
  call('HSET', KEYS[2], 'remember_of', call('HGET', KEYS[2], 'last_step') or '')
  add_wake_up(KEYS[6], ARGV[3])
else
  post(KEYS[2], KEYS[3], KEYS[4], ARGV[3], ARGV[2], '{}')
  if ARGV[2] == 'deadline' then call('HSET', KEYS[2], 'control', ARGV[2]) end
end
return {1, woken}
