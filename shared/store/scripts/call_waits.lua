-- Find out which calls that were laid aside (call_park) are open still; closed ones are forgotten.
-- KEYS waiting, then the calls hash of each   ARGV call-ids   Returns 1 or 0 of each.
local open = {}
for n, id in ipairs(ARGV) do
  open[n] = call('HEXISTS', KEYS[n + 1], id)
  if open[n] == 0 then call('HDEL', KEYS[1], id) end
end
return open
