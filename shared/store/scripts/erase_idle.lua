-- Remove a session in which nothing is left: no turn, no task, no message, nobody who handles it.
-- KEYS header messages signals turns index   ARGV session   Returns whether nothing is left of it.
local header, messages, signals, turns, index = unpack(KEYS)
if call('LLEN', turns) > 0 or call('ZCARD', messages) > 0 or call('ZCARD', signals) > 0 then return 0 end
if (call('HGET', header, 'wake') or '') ~= '' then return 0 end
for _, field in ipairs(call('HKEYS', header)) do
  if string.find(field, '^live') then return 0 end
end
call('DEL', header)
call('ZREM', index, ARGV[1])
return 1
