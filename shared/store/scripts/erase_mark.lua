-- Begin to erase: from now on nothing of before comes back. What is a session's own goes at once, so that its next message
-- begins afresh; the rest an archiver does.
-- KEYS mark erase-stream, then of a session: header messages signals turns load index
-- ARGV inbound-entry generation ttl command ('': it is another shard's) session ('': of a user) tenant
--   inbound-entry: the last one by now
expect_kind('hash', KEYS[1])
expect_kind('stream', KEYS[2])
local header, messages, _, _, load, index = unpack(KEYS, 3)
if header then
  expect_kind('hash', header, load)
  expect_kind('zset', messages, index)
end
call('HSET', KEYS[1], 'at', now(), 'entry', ARGV[1], 'generation', ARGV[2], 'session', ARGV[5])
call('EXPIRE', KEYS[1], ARGV[3])
if header then
  local waiting = call('ZCARD', messages)
  if waiting > 0 then count_waiting(load, ARGV[6], -waiting) end
  for n = 3, 6 do call('DEL', KEYS[n]) end
  call('ZREM', index, ARGV[5])
end
if ARGV[4] ~= '' then call('XADD', KEYS[2], '*', 'data', ARGV[4]) end
return 1
