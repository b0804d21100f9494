-- Post mail to an actor from outside its shard's transactions, only while it has one of the given statuses.
-- KEYS header box stream   ARGV actor kind body control statuses-separated-by-|
-- Returns {the status it had, or 'none'; whether mail was posted; wake-ups added}. The status is one of the given ones and
-- yet nothing was posted when the same control waits already.
local status = status_of(KEYS[1])
if not string.find('|' .. ARGV[5] .. '|', '|' .. status .. '|', 1, true) then return {status, 0, 0} end
expect_kind('zset', KEYS[2])
expect_kind('stream', KEYS[3])
if ARGV[4] ~= '' then
  if call('HGET', KEYS[1], 'control') == ARGV[4] then return {status, 0, 0} end
  call('HSET', KEYS[1], 'control', ARGV[4])
end
post(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3])
return {status, 1, woken}
