-- Ask a task to give a message away. Asked again while it is asked already, it changes nothing.
-- KEYS header signals wake-stream   ARGV actor mail-body most
--   most: how many such requests may wait
-- Returns {the task's status, 'none' or 'busy'; mails posted; wake-ups added}
local status = status_of(KEYS[1])
if status == 'none' then return {status, 0, 0} end
expect_kind('zset', KEYS[2])
expect_kind('stream', KEYS[3])
local waiting = 0
for _, m in ipairs(call('ZRANGE', KEYS[2], 0, -1)) do
  local body = string.match(m, '^%d+ move (.*)$')
  if body == ARGV[2] then return {status, 0, 0} end
  if body then waiting = waiting + 1 end
end
if waiting >= tonumber(ARGV[3]) then return {'busy', 0, 0} end
if (call('HGET', KEYS[1], 'control') or '') == '' then call('HSET', KEYS[1], 'control', 'move') end
post(KEYS[1], KEYS[2], KEYS[3], ARGV[1], 'move', ARGV[2])
return {status, 1, woken}
