-- Take the result that a client has sent of a call of its own tool. The first result is the only one.
-- KEYS header calls big signals stream events bell
-- ARGV call actor session result-name digest mail event maxlen ttl [ref value]
--   digest: of the result, kept under result-name
-- Returns {outcome, wake-ups added}
--   outcome: 'taken' | 'same' | 'other' (another result was sent before) | 'none' (no such task) | 'ended' (of the task) |
--   'closed' (no such call, or one that waits for no client)
local header, calls, big, signals, stream, events, bell = unpack(KEYS)
local status = status_of(header)
if status == 'none' then return {'none', 0} end
local sent = call('HGET', big, ARGV[4])
if sent then return {sent == ARGV[5] and 'same' or 'other', 0} end
if status == 'completed' or status == 'failed' or status == 'cancelled' then return {'ended', 0} end
if call('HGET', calls, ARGV[1]) ~= 'client' then return {'closed', 0} end
expect_kind('zset', signals)
expect_kind('stream', stream, events, bell)
call('HDEL', calls, ARGV[1])
call('HSET', big, ARGV[4], ARGV[5])
if #ARGV == 11 then call('HSET', big, ARGV[10], ARGV[11]) end
tell(events, ARGV[7], ARGV[8], ARGV[9], bell, ARGV[3])
post(header, signals, stream, ARGV[2], 'result', ARGV[6])
return {'taken', woken}
