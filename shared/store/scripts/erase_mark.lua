-- Begin to erase: from now on nothing of before comes back. What is a session's own goes at once, so that its next message
-- begins afresh; the rest an archiver does.
-- Its time is the latest that anything was told by: of a clock that has stepped back since, what there is lies ahead. Ids
-- of entries never go back, so a task that has begun is no later than the last wake-up of its shard, nor is what a session
-- was told later than its last event. What comes now is later than the mark: the time of the shard is set behind it, and
-- for tasks see `begin` in `commit.lua`.
-- KEYS mark erase-stream task-wake-ups bell, then of a session: header messages signals turns load index events
-- ARGV inbound-entry generation ttl command ('': it is another shard's) session ('': of a user) tenant
--   inbound-entry: the last one by now
-- The time of the last id that a stream has given out.
local function last_ms(stream)
  if call('EXISTS', stream) == 0 then return 0 end
  local about = call('XINFO', 'STREAM', stream)
  for n = 1, #about, 2 do
    if about[n] == 'last-generated-id' then return tonumber(string.match(about[n + 1], '^%d+')) end
  end
end

expect_kind('hash', KEYS[1])
expect_kind('stream', KEYS[2], KEYS[3], KEYS[4])
local header, messages, _, _, load, index, events = unpack(KEYS, 5)
if header then
  expect_kind('hash', header, load)
  expect_kind('zset', messages, index)
  expect_kind('stream', events)
end
local at = math.max(now(), last_ms(KEYS[3]), last_ms(KEYS[4]), events and last_ms(events) or 0)
shard_time(KEYS[4], at + 1)
call('HSET', KEYS[1], 'at', at, 'entry', ARGV[1], 'generation', ARGV[2], 'session', ARGV[5])
call('EXPIRE', KEYS[1], ARGV[3])
if header then
  local waiting = call('ZCARD', messages)
  if waiting > 0 then count_waiting(load, ARGV[6], -waiting) end
  for n = 5, 8 do call('DEL', KEYS[n]) end
  call('ZREM', index, ARGV[5])
end
if ARGV[4] ~= '' then call('XADD', KEYS[2], '*', 'data', ARGV[4]) end
return 1
