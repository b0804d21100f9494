-- Dead-letter a tool call's entry and end its call with an error, at once: the task need not wait for its time limit.
-- KEYS queue dead calls header signals wake-stream events bell
-- ARGV group entry-id dead-letter call-id actor mail-body event maxlen ttl bell-name
-- Returns {outcome, wake-ups added}; 'gone' (acknowledged before) | 'closed' (it was closed already: only the dead letter) | 'ok'
expect_kind('hash', KEYS[3], KEYS[4])
expect_kind('zset', KEYS[5])
expect_kind('stream', KEYS[2], KEYS[6], KEYS[7], KEYS[8])
if ack(KEYS[1], ARGV[1], ARGV[2], ARGV[4]) == 0 then return {'gone', 0} end
call('XADD', KEYS[2], '*', 'data', ARGV[3])
if call('HDEL', KEYS[3], ARGV[4]) == 0 then return {'closed', 0} end
tell(KEYS[7], ARGV[7], ARGV[8], ARGV[9], KEYS[8], ARGV[10])
post(KEYS[4], KEYS[5], KEYS[6], ARGV[5], 'result', ARGV[6])
return {'ok', woken}
