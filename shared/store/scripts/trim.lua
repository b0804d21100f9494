-- Cut a work stream below what every group has consumed (law 7). Never by length.
-- KEYS stream   ARGV '=' (cut all that may be, not only what is cheap to cut), or nothing   Returns the number of entries cut.
if call('EXISTS', KEYS[1]) == 0 then return 0 end
local floor
for _, raw in ipairs(call('XINFO', 'GROUPS', KEYS[1])) do
  local g = {}
  for n = 1, #raw, 2 do g[raw[n]] = raw[n + 1] end
  local low = g['last-delivered-id']
  local pending = call('XPENDING', KEYS[1], g['name'])
  if pending[1] > 0 and id_less(pending[2], low) then low = pending[2] end
  if not floor or id_less(low, floor) then floor = low end
end
if not floor then return 0 end
return call('XTRIM', KEYS[1], 'MINID', ARGV[1] or '~', floor)
