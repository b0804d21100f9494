-- Put an event on its way to a webhook again, once, unless what it is about was erased.
-- KEYS guard waiting, then marks of erasures   ARGV guard-ttl webhook lane entry event
-- Returns 1, 0 when that was done before, or -1 when it was erased.
local guard, waiting = unpack(KEYS)
for i = 3, #KEYS do
  if call('EXISTS', KEYS[i]) == 1 then return -1 end
end
expect_kind('zset', waiting)
if not call('SET', guard, '1', 'NX', 'EX', ARGV[1]) then return 0 end
push_delivery(waiting, unpack(ARGV, 2, 5))
return 1
