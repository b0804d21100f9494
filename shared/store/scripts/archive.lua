-- Remove a finished task whose record is written, unless it has moved since the record was read. Steps have ids that are
-- never given twice; versions are counted again by a Redis that lost its last writes.
-- One that is ended and yet busy (late mail) is tried again after a while.
-- What is asked for behind it is asked for here: nobody who dies just then takes it along.
-- KEYS archive-stream session-header timers, then the task's keys (header, messages, signals first), extract-stream
-- ARGV group entry-id last-step task-id timer-member again-ms extract-entry
local header = KEYS[4]
expect_kind('hash', KEYS[2], header)
expect_kind('zset', KEYS[3], KEYS[5], KEYS[6])
ack(KEYS[1], ARGV[1], ARGV[2], ARGV[4])
local last_step, wake_id = unpack(call('HMGET', header, 'last_step', 'wake'))
if not last_step then return 'gone' end
local status = status_of(header)
local ended = status == 'completed' or status == 'failed' or status == 'cancelled'
local busy = (wake_id and wake_id ~= '') or call('ZCARD', KEYS[5]) > 0 or call('ZCARD', KEYS[6]) > 0
-- Mail without a wake-up: a message may wait for the model to come back.
if last_step ~= ARGV[3] or not ended or busy then
  if ended and not call('ZSCORE', KEYS[3], ARGV[5]) then set_timer(KEYS[3], ARGV[5], now() + tonumber(ARGV[6]), now()) end
  return 'moved'
end
for n = 4, #KEYS - 1 do call('DEL', KEYS[n]) end
call('XADD', KEYS[#KEYS], '*', 'data', ARGV[7])
if call('HGET', KEYS[2], 'done') == ARGV[4] then call('HDEL', KEYS[2], 'done', 'done_at') end
return 'ok'
