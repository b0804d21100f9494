-- Put events of one session on their way to its webhooks, if nobody else has: the cursor of each webhook moves with them.
-- What was erased stays so: neither events of a session that was erased behind them are taken, nor those of an erased task.
-- KEYS waiting cursors session-mark
-- ARGV ttl tenant most-events most-bytes number-of-webhooks, then for each: id cursor-read ('': none) cursor-new,
--   then for each event: webhook (its number) lane task ('': of none) entry json
-- Returns for each webhook: 1, 0 when another was quicker, -1 when too much waits for it.
local waiting, cursors, mark = unpack(KEYS)
local ttl, tenant, most, most_bytes, n = unpack(ARGV, 1, 5)
expect_kind('zset', waiting)
expect_kind('hash', cursors)
local outcomes = {}
for w = 1, tonumber(n) do
  local id, read, new = unpack(ARGV, 3 + 3 * w, 5 + 3 * w)
  local state, due = webhook_keys(waiting, id)
  expect_kind('zset', due)
  local count, bytes = unpack(call('HMGET', state, 'count', 'bytes'))
  if (call('HGET', cursors, id) or '') ~= read then outcomes[w] = 0
  elseif tonumber(count or 0) >= tonumber(most) or tonumber(bytes or 0) >= tonumber(most_bytes) then outcomes[w] = -1
  else outcomes[w] = 1 end
end
local erased = tonumber(call('HGET', mark, 'at') or 0)
local tag = string.match(waiting, '^(.*}:)')
for w = 1, tonumber(n) do
  if outcomes[w] == 1 then
    call('HSET', cursors, ARGV[3 + 3 * w], ARGV[5 + 3 * w])
  end
end
if call('EXISTS', cursors) == 1 then call('EXPIRE', cursors, ttl) end
for i = 6 + 3 * n, #ARGV, 5 do
  local w, lane, task, entry, event = unpack(ARGV, i, i + 4)
  if outcomes[tonumber(w)] == 1 and tonumber(string.match(entry, '^%d+')) > erased
      and (task == '' or call('EXISTS', tag .. 'task:' .. tenant .. ':' .. task .. ':erased') == 0) then
    push_delivery(waiting, ARGV[3 + 3 * tonumber(w)], lane, entry, event)
  end
end
return outcomes
