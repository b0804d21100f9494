-- Move a batch of inbound entries into their sessions' messages, in order. Repeats are dropped by entry id and message id.
-- KEYS wake-stream load, then for each message: session-header session-messages dedup index
-- ARGV session-ttl dedup-ttl limit generation, then for each message: entry-id actor tenant session body
--   generation: of the inbound stream; ids of one that was replaced do not compare with those of its successor
-- Returns {waiting, outcome...}: 'new' | 'repeat' | 'old'; stops at the first one over the limit, so the list may be short.
expect_kind('stream', KEYS[1])
local waiting, limit = tonumber(call('HGET', KEYS[2], 'mail') or '0'), tonumber(ARGV[3])
local out = {waiting}
local k, i = 3, 5
while i <= #ARGV do
  if waiting >= limit then break end
  local header, entry = KEYS[k], ARGV[i]
  local last, generation = unpack(call('HMGET', header, 'last_in', 'in_gen'))
  if last and (generation or '') == ARGV[4] and not id_less(last, entry) then
    out[#out + 1] = 'old'
  else
    expect_kind('zset', KEYS[k + 1], KEYS[k + 3])
    call('HSET', header, 'last_in', entry, 'in_gen', ARGV[4])
    call('EXPIRE', header, ARGV[1])
    if call('SET', KEYS[k + 2], entry, 'NX', 'EX', ARGV[2]) then
      post(header, KEYS[k + 1], KEYS[1], ARGV[i + 1], 'user', entry .. ' ' .. ARGV[i + 4])
      call('EXPIRE', KEYS[k + 1], ARGV[1])
      local at = math.min(tonumber(string.match(entry, '^%d+')), now()) -- a producer's own id may be no time
      call('ZADD', KEYS[k + 3], at, ARGV[i + 3])
      call('ZREMRANGEBYSCORE', KEYS[k + 3], '-inf', at - tonumber(ARGV[1]) * 1000)
      call('EXPIRE', KEYS[k + 3], ARGV[1])
      count_waiting(KEYS[2], ARGV[i + 2], 1)
      waiting = waiting + 1
      out[#out + 1] = 'new'
    else
      out[#out + 1] = 'repeat'
    end
  end
  k, i = k + 4, i + 5
end
out[1] = waiting
return out
