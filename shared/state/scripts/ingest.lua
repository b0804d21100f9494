-- Move a batch of inbound entries into their sessions' mailboxes, in order. Repeats are dropped by entry id and message id.
-- KEYS wake-stream load, then for each message: session-header session-mail dedup index
-- ARGV session-ttl dedup-ttl limit, then for each message: entry-ms entry-seq actor session now-ms body
-- Returns {waiting, outcome...}: 'new' | 'repeat' | 'old'; stops at the first one over the limit, so the list may be short.
local function greater(ms, seq, last)
  local lms, lseq = string.match(last, '^(%d+)-(%d+)$')
  ms, seq, lms, lseq = tonumber(ms), tonumber(seq), tonumber(lms), tonumber(lseq)
  return ms > lms or (ms == lms and seq > lseq)
end
local waiting, limit = tonumber(call('HGET', KEYS[2], 'mail') or '0'), tonumber(ARGV[3])
local out = {waiting}
local k, i = 3, 4
while i <= #ARGV do
  if waiting >= limit then break end
  local header, entry = KEYS[k], ARGV[i] .. '-' .. ARGV[i + 1]
  local last = call('HGET', header, 'last_in')
  if last and not greater(ARGV[i], ARGV[i + 1], last) then
    out[#out + 1] = 'old'
  else
    call('HSET', header, 'last_in', entry)
    call('EXPIRE', header, ARGV[1])
    if call('SET', KEYS[k + 2], entry, 'NX', 'EX', ARGV[2]) then
      post(header, KEYS[k + 1], KEYS[1], ARGV[i + 2], 'user', entry .. ' ' .. ARGV[i + 5])
      call('EXPIRE', KEYS[k + 1], ARGV[1])
      local at = math.min(tonumber(ARGV[i + 4]), now()) -- a producer's own id may be no time
      call('ZADD', KEYS[k + 3], at, ARGV[i + 3])
      call('ZREMRANGEBYSCORE', KEYS[k + 3], '-inf', at - tonumber(ARGV[1]) * 1000)
      call('EXPIRE', KEYS[k + 3], ARGV[1])
      waiting = waiting + 1
      out[#out + 1] = 'new'
    else
      out[#out + 1] = 'repeat'
    end
  end
  k, i = k + 4, i + 6
end
call('HSET', KEYS[2], 'mail', waiting)
out[1] = waiting
return out
