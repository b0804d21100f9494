-- Claim a tool call before running it. A missing call is a closed one.
-- KEYS calls queue   ARGV call-id owner effect entry-id group max-starts consumer
-- Returns {'closed'} | {'taken'} (the entry went to another while it waited here) | {'run', attempt} | {'claimed', attempt}
--   | {'unknown', starts} | {'poison', starts}
local state = call('HGET', KEYS[1], ARGV[1])
if not state then
  ack(KEYS[2], ARGV[5], ARGV[4], ARGV[1])
  return {'closed'}
end
if not call('XPENDING', KEYS[2], ARGV[5], ARGV[4], ARGV[4], 1, ARGV[7])[1] then return {'taken'} end
local starts = 0
local owner, n = string.match(state, '^started ([^ ]+) (%d+)$')
if n then starts = tonumber(n) else starts = tonumber(string.match(state, '^open (%d+)$')) end
if owner == ARGV[2] then return {'claimed', starts} end
if owner and ARGV[3] == 'unsafe' then return {'unknown', starts} end
if starts >= tonumber(ARGV[6]) then return {'poison', starts} end
call('HSET', KEYS[1], ARGV[1], 'started ' .. ARGV[2] .. ' ' .. (starts + 1))
return {'run', starts + 1}
