-- Acknowledge what was moved and read on, under the lease: an unfenced read of a paused holder would swallow entries.
-- KEYS lease stream
-- ARGV owner token lease-ms group start ('>' or an id: what a predecessor left pending) count bytes most-of-one first-id-field, then ids
-- A producer may append whatever the server takes. So entries are taken one by one until there are so many bytes, and of one
-- that is larger than any message the beginning is returned: nobody has all of it in memory but the server.
-- Returns nil when the lease is lost, else {time in ms, entries, whether there may be more, {id, bytes, digest} of each that
-- was cut}
local owner, token = unpack(call('HMGET', KEYS[1], 'owner', 'token'))
if owner ~= ARGV[1] or token ~= ARGV[2] then return false end
local t = now()
call('HSET', KEYS[1], 'exp', t + tonumber(ARGV[3]), 'lease', ARGV[3])
if #ARGV > 9 then call('XACK', KEYS[2], ARGV[4], unpack(ARGV, 10)) end

local function cut(fields)
  local kept = {}
  for n = 1, #fields, 2 do
    if n < 16 or fields[n] == 'data' or fields[n] == ARGV[9] then
      kept[#kept + 1] = string.sub(fields[n], 1, 256)
      kept[#kept + 1] = string.sub(fields[n + 1], 1, 1024)
    end
  end
  return kept
end

local function digest(fields)
  for n = 1, #fields, 2 do
    if fields[n] == 'data' then return redis.sha1hex(string.sub(fields[n + 1], 1, 1048576)) end
  end
  return ''
end

local count, left, most = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local start, found, large, more = ARGV[5], {}, {}, 1
while #found < count and left > 0 do
  local reply = call('XREADGROUP', 'GROUP', ARGV[4], 'router', 'COUNT', 1, 'STREAMS', KEYS[2], start)
  local entry = reply and reply[1][2][1]
  if not entry then
    more = 0
    break
  end
  local size = 0
  for _, part in ipairs(entry[2] or {}) do size = size + #part end
  if size > most then
    large[#large + 1] = {entry[1], size, digest(entry[2])}
    entry[2] = cut(entry[2])
    size = 0
    collectgarbage()
  end
  left = left - size
  found[#found + 1] = entry
  if start ~= '>' then start = entry[1] end
end
return {t, found, more, large}
