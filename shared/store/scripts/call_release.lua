-- Hand a call back: another worker finds it open in the queue at once. A started unsafe call cannot be handed back.
-- One that another has started, who fell silent, goes back as it is: who has its tool decides what becomes of it.
-- KEYS calls queue   ARGV call-id owner effect entry-id group data consumer
local state = call('HGET', KEYS[1], ARGV[1])
if not state then
  ack(KEYS[2], ARGV[5], ARGV[4], ARGV[1])
  return 'closed'
end
local owner, n = string.match(state, '^started ([^ ]+) (%d+)$')
if owner then
  if owner == ARGV[2] then
    if ARGV[3] == 'unsafe' then return 'started' end
    call('HSET', KEYS[1], ARGV[1], 'open ' .. (tonumber(n) - 1))
  elseif not call('XPENDING', KEYS[2], ARGV[5], ARGV[4], ARGV[4], 1, ARGV[7])[1] then
    return 'lost'
  end
end
if ack(KEYS[2], ARGV[5], ARGV[4], ARGV[1]) == 0 then return 'gone' end -- handed back before
call('XADD', KEYS[2], '*', 'data', ARGV[6])
return 'ok'
