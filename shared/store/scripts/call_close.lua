-- Write a call's one result: event, mail to the task, acknowledgement. What comes for a closed call is dropped.
-- KEYS calls queue header signals wake-stream events bell [big]
-- ARGV call-id entry-id group actor mail-body event maxlen ttl bell-name [ref value]
-- Returns {'ok' | 'closed', wake-ups added}
expect_kind('hash', KEYS[3], KEYS[8])
expect_kind('zset', KEYS[4])
expect_kind('stream', KEYS[2], KEYS[5], KEYS[6], KEYS[7])
if call('HDEL', KEYS[1], ARGV[1]) == 0 then
  ack(KEYS[2], ARGV[3], ARGV[2], ARGV[1])
  return {'closed', 0}
end
if #KEYS == 8 then call('HSET', KEYS[8], ARGV[10], ARGV[11]) end
tell(KEYS[6], ARGV[6], ARGV[7], ARGV[8], KEYS[7], ARGV[9])
post(KEYS[3], KEYS[4], KEYS[5], ARGV[4], 'result', ARGV[5])
ack(KEYS[2], ARGV[3], ARGV[2], ARGV[1])
return {'ok', woken}
