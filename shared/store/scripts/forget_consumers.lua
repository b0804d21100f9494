-- Remove consumers that are idle and hold nothing: every restart leaves one behind.
-- KEYS stream   ARGV group idle-ms keep   Returns how many were removed.
if call('EXISTS', KEYS[1]) == 0 then return 0 end
local removed = 0
for _, raw in ipairs(call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local c = {}
  for n = 1, #raw, 2 do c[raw[n]] = raw[n + 1] end
  if c['name'] ~= ARGV[3] and c['pending'] == 0 and c['idle'] > tonumber(ARGV[2]) then
    call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], c['name'])
    removed = removed + 1
  end
end
return removed
