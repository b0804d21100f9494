-- Move a batch of inbound entries into their sessions' messages, in order. Repeats are dropped by entry id and message id.
-- KEYS wake-stream load, then for each message: session-header session-messages dedup index erased erased-user
-- ARGV session-ttl dedup-ttl limit generation, then for each message: entry-id actor tenant session digest body
-- Returns {waiting, wake-ups added, outcome...}: 'new' | 'repeat' | 'old' | 'other'; stops at the first one over the limit, so the list
-- may be short.
expect_kind('stream', KEYS[1])
local waiting, limit = tonumber(call('HGET', KEYS[2], 'mail') or '0'), tonumber(ARGV[3])
local out = {waiting, 0}
local k, i = 3, 5
while i <= #ARGV do
  if waiting >= limit then break end
  local header, entry, session = KEYS[k], ARGV[i], ARGV[i + 3]
  expect_kind('zset', KEYS[k + 1], KEYS[k + 3])
  local seen, index, erased, of_user = KEYS[k + 2], KEYS[k + 3], KEYS[k + 4], KEYS[k + 5]
  local outcome = arrive(header, seen, index, erased, of_user, entry, ARGV[4], session, ARGV[i + 4], ARGV[1], ARGV[2])
  if outcome == 'new' then
    post(header, KEYS[k + 1], KEYS[1], ARGV[i + 1], 'user', entry .. ' ' .. ARGV[i + 5])
    call('EXPIRE', KEYS[k + 1], ARGV[1])
    count_waiting(KEYS[2], ARGV[i + 2], 1)
    waiting = waiting + 1
  end
  out[#out + 1] = outcome
  k, i = k + 6, i + 6
end
out[1], out[2] = waiting, woken
return out
