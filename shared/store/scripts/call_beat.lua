-- Keep a worker's started calls of one queue: reclaiming is put off, and closed ones are named so that they are stopped.
-- A missing call is a closed one: nobody has to take its entry over.
-- KEYS queue, then the calls hash of each   ARGV group consumer owner, then call-id entry-id of each
-- Returns the ids of calls that are no longer this worker's.
local lost, mine = {}, {}
for n = 2, #KEYS do
  local id, entry = ARGV[2 * n], ARGV[2 * n + 1] -- pairs begin at ARGV[4]
  local kind = call('TYPE', KEYS[n]).ok -- another kind of key is no reason to keep nothing of the rest
  local state = kind == 'hash' and call('HGET', KEYS[n], id)
  if not state and (kind == 'hash' or kind == 'none') then ack(KEYS[1], ARGV[1], entry, id) end
  if state and string.match(state, '^started ([^ ]+) ') == ARGV[3] then mine[#mine + 1] = entry
  else lost[#lost + 1] = id end
end
for first = 1, #mine, 1000 do
  local part = {unpack(mine, first, math.min(first + 999, #mine))}
  part[#part + 1] = 'JUSTID'
  call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, unpack(part))
end
return lost
