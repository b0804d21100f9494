-- Note the outcome of sending the first event of a lane, if it is still the first.
-- KEYS waiting dead
-- ARGV webhook lane first outcome, then of 'retry': ms until the next attempt, why;
--   of 'dead': the dead letter
--   outcome: 'sent' | 'retry' | 'dead'
-- Returns 1, or 0 when it is not the first any more.
local waiting, dead = unpack(KEYS)
local id, lane, first, outcome = unpack(ARGV, 1, 4)
local state, _, lanes = webhook_keys(waiting, id)
if call('LINDEX', lanes .. lane, 0) ~= first then return 0 end
if outcome == 'retry' then
  call('HINCRBY', state, 'try:' .. lane, 1)
  call('HSET', state, 'error', ARGV[6])
  set_due(waiting, id, lane, now() + tonumber(ARGV[5]))
else
  if outcome == 'dead' then
    expect_kind('stream', dead)
    call('XADD', dead, '*', 'data', ARGV[5])
  end
  pop_delivery(waiting, id, lane)
end
settle_webhook(waiting, id)
return 1
