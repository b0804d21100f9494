-- Decide whether a tool call that waits for an approval may be made. The first decision is the only one.
-- KEYS header calls big signals stream events bell index
-- ARGV call actor session request-name decision-name digest ('' for any) same decision mail event maxlen ttl index-member
--   same: what a repeated decision has in common with the first   decision: as it is kept behind it
-- Returns {outcome, the decision that counts, wake-ups added}
--   outcome: 'decided' | 'same' | 'other' (decided before) | 'none' (no such task) | 'ended' (of the task) | 'closed' (no such
--   call, or one that waits for no decision) | 'expired' | 'changed' (other arguments than the digest's)
local header, calls, big, signals, stream, events, bell, index = unpack(KEYS)
local t = now()
local status = status_of(header)
if status == 'none' then return {'none', '', 0} end
local decided = call('HGET', big, ARGV[5])
if decided then
  local same, said = string.match(decided, '^(%S+) (.*)$')
  return {same == ARGV[7] and 'same' or 'other', said, 0}
end
if status == 'completed' or status == 'failed' or status == 'cancelled' then return {'ended', '', 0} end
local expires, digest = string.match(call('HGET', calls, ARGV[1]) or '', '^asks (%d+) (%x+)$')
if not expires then return {'closed', '', 0} end
if t >= tonumber(expires) then return {'expired', '', 0} end
if ARGV[6] ~= '' and ARGV[6] ~= digest then return {'changed', '', 0} end
expect_kind('zset', signals, index)
expect_kind('stream', stream, events, bell)
call('HSET', big, ARGV[5], ARGV[7] .. ' ' .. ARGV[8])
call('ZREM', index, ARGV[13])
tell(events, ARGV[10], ARGV[11], ARGV[12], bell, ARGV[3])
post(header, signals, stream, ARGV[2], 'approval', ARGV[9])
return {'decided', ARGV[8], woken}
