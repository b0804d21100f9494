-- Keep entries that carry their own work from being reclaimed: only while the group still counts them as ours.
-- KEYS stream   ARGV group consumer, then entry ids   Returns the ids that are no longer ours.
local lost, mine = {}, {}
for n = 3, #ARGV do
  local p = call('XPENDING', KEYS[1], ARGV[1], ARGV[n], ARGV[n], 1)
  if p[1] and p[1][2] == ARGV[2] then mine[#mine + 1] = ARGV[n] else lost[#lost + 1] = ARGV[n] end
end
for first = 1, #mine, 1000 do
  local part = {unpack(mine, first, math.min(first + 999, #mine))}
  part[#part + 1] = 'JUSTID'
  call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, unpack(part))
end
return lost
