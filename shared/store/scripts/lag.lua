-- Count the entries of a stream behind an id, up to a limit: for a group whose lag Redis has lost count of.
-- KEYS stream   ARGV last-delivered-id limit   Returns the count.
local after, limit, count = '(' .. ARGV[1], tonumber(ARGV[2]), 0
while count < limit do
  local part = call('XRANGE', KEYS[1], after, '+', 'COUNT', 100)
  count = count + #part
  if #part < 100 then break end
  after = '(' .. part[100][1]
end
return count
