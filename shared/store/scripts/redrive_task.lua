-- Tell a task to go on, or to make a tool call again, once.
-- KEYS guard header signals wake-stream   ARGV guard-ttl actor mail-body
-- Returns {the task's status or 'none', mails posted, wake-ups added}; a task that is gone or was cancelled gets none
local status = status_of(KEYS[2])
if status == 'none' or status == 'cancelled' then return {status, 0, 0} end
expect_kind('zset', KEYS[3])
expect_kind('stream', KEYS[4])
if not call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1]) then return {status, 0, 0} end
post(KEYS[2], KEYS[3], KEYS[4], ARGV[2], 'redrive', ARGV[3])
return {status, 1, woken}
