-- Put an event on its way to a webhook again, once, unless what it is about was erased.
-- KEYS guard waiting session-mark task-mark (the other again, for an event of no task)
-- ARGV guard-ttl webhook lane entry event
-- Returns 1, 0 when that was done before, or -1 when it was erased.
local guard, waiting, of_session, of_task = unpack(KEYS)
expect_kind('zset', waiting)
if tonumber(call('HGET', of_session, 'at') or 0) >= tonumber(string.match(ARGV[4], '^%d+')) then return -1 end
if of_task ~= of_session and call('EXISTS', of_task) == 1 then return -1 end
if not call('SET', guard, '1', 'NX', 'EX', ARGV[1]) then return 0 end
push_delivery(waiting, unpack(ARGV, 2, 5))
return 1
