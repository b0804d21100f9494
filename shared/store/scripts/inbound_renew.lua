-- Replace the inbound stream by one whose ids begin again at the clock: of a stream without ids left, or far ahead of it.
-- What is pending and what is unread goes over, in order, each entry with the id that it had first. Whoever moves entries
-- loses the lease, and sessions learn by the generation that ids of before say nothing any more.
-- KEYS stream, a name for the new one, lease   ARGV group generation first-id-field
-- Returns how many entries went over, or -1 when there is no stream.
local stream, fresh, lease, group = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
if call('EXISTS', stream) == 0 then return -1 end
call('DEL', fresh)
call('XGROUP', 'CREATE', fresh, group, '0', 'MKSTREAM')

local copied = 0
local function copy(id, fields)
  local kept, first = {}, id
  for n = 1, #fields, 2 do
    if fields[n] == ARGV[3] then first = fields[n + 1]
    elseif fields[n] == 'data' or n < 1000 then -- what Lua can pass on; nobody reads more than `data`
      kept[#kept + 1] = fields[n]
      kept[#kept + 1] = fields[n + 1]
    end
  end
  kept[#kept + 1] = ARGV[3]
  kept[#kept + 1] = first
  call('XADD', fresh, '*', unpack(kept))
  copied = copied + 1
end

local read = nil
for _, raw in ipairs(call('XINFO', 'GROUPS', stream)) do
  local g = {}
  for n = 1, #raw, 2 do g[raw[n]] = raw[n + 1] end
  if g['name'] == group then read = g['last-delivered-id'] end
end

local after = '-'
while read do
  local page = call('XPENDING', stream, group, after, '+', 1000)
  for _, p in ipairs(page) do
    local found = call('XRANGE', stream, p[1], p[1])[1]
    if found and found[2] then copy(found[1], found[2]) end
  end
  if #page < 1000 then break end
  after = '(' .. page[1000][1]
end

local last = '18446744073709551615-18446744073709551615'
after = (read and read ~= '0-0') and '(' .. read or '-'
while after ~= '(' .. last do
  local page = call('XRANGE', stream, after, '+', 'COUNT', 1000)
  for _, entry in ipairs(page) do copy(entry[1], entry[2]) end
  if #page < 1000 then break end
  after = '(' .. page[1000][1]
end

call('RENAME', fresh, stream)
call('HINCRBY', lease, 'token', 1)
call('HSET', lease, 'owner', '', 'exp', 0, 'generation', ARGV[2])
return copied
