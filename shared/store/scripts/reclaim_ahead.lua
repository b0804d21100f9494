-- Take over entries that were given out in the future: the clock has stepped back since, and XAUTOCLAIM would leave them to
-- whoever had them until it has come there again. Their idle time is 0 whenever one looks; what is held is beaten, and ages.
-- KEYS stream   ARGV group consumer, then ids that were seen so at several looks, long enough apart
-- Returns {the entries of those that are seen so again, the ids of the others that are seen so now}
local claimed, others, known = {}, {}, {}
for n = 3, #ARGV do known[ARGV[n]] = true end
local from = '-'
for _ = 1, 10 do
  local found = call('XPENDING', KEYS[1], ARGV[1], from, '+', 1000)
  for _, p in ipairs(found) do
    if p[3] <= 0 then
      if known[p[1]] then
        claimed[#claimed + 1] = call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, p[1])[1]
      else
        others[#others + 1] = p[1]
      end
    end
  end
  if #found < 1000 then break end
  from = '(' .. found[#found][1]
end
return {claimed, others}
