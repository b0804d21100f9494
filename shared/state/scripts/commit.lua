-- The one way in which a handling of an actor ends (law 2): state, events, other actors' mail and the acknowledgement at once.
-- KEYS header mail log stream, then whatever the operations name by index
-- ARGV token version step-id read group wake-id actor mode, then operations
--   read: number of the newest mail that the step has seen
--   mode: 'go'        no end
--         'complete'  an end, unless a user's message has come since: then the step commits without its end
--         'end'       an end that takes all messages with it: refused as 'again' when one has come since
--         'fail'      an end; messages that have come start the next turn. Refused as 'again' when a cancel has come since:
--                     it meant them too
--   An end takes all control mail with it: what was asked of the task as it was must not meet the next turn.
-- Operations (k is an index into KEYS):
--   expect k status          refuse as 'again' unless the actor has this status (checked before anything is written)
--   quiet                    refuse as 'again' when a tool's result has come that the step has not seen
--   unmail n                 remove mail number n
--   log json                 append to the transcript
--   push k json cap          append to a list, keep the last cap (0: all)
--   set k n field value ...  n pairs               unset k field        incr k field n
--   setnx k field value      cut k field value     remove the field if it has this value
--   event k json maxlen ttl  append to an event stream      delta k json maxlen ttl d   likewise, with the field d
--   post h m s actor kind body
--   queue k json             append to a work stream
--   timer k member ms        due that many ms from now     untimer k member
--   rank k member score      zset member, e.g. an index    unrank k member
--   ring k name              the session has news
--   expire k seconds         a time to live
--   rewake                   wake again even though no newer mail came
--   finish                   what follows belongs to the end
-- Returns {'ok' | 'open' (committed without its end) | 'again' | 'stale', now}
local header, mail, log, stream = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if call('HGET', header, 'last_step') == ARGV[3] then return {call('HGET', header, 'last_outcome') or 'ok', now()} end
if call('HGET', header, 'token') ~= ARGV[1] or (call('HGET', header, 'v') or '0') ~= ARGV[2] then return {'stale', now()} end

local read, group, wake_id, actor, mode = tonumber(ARGV[4]), ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local width = {expect = 3, unmail = 2, log = 2, push = 4, setnx = 4, cut = 4, unset = 3, incr = 4, event = 5, delta = 6,
  post = 7, queue = 3, timer = 4, untimer = 3, rank = 4, unrank = 3, ring = 3, expire = 3, rewake = 1, finish = 1}

-- Whether mail of this kind has come that the step has not seen.
local function newer(kind)
  for _, m in ipairs(call('ZRANGEBYSCORE', mail, '(' .. read, '+inf')) do
    if string.match(m, '^%d+ (%l+) ') == kind then return true end
  end
  return false
end

local i = 9
while ARGV[i] == 'expect' or ARGV[i] == 'quiet' do
  if ARGV[i] == 'quiet' then
    if newer('result') then return {'again', now()} end
    i = i + 1
  else
    if status_of(KEYS[tonumber(ARGV[i + 1])]) ~= ARGV[i + 2] then return {'again', now()} end
    i = i + 3
  end
end

local outcome = 'ok'
if mode == 'end' and newer('user') then return {'again', now()} end
if mode == 'fail' and newer('cancel') then return {'again', now()} end
if mode == 'complete' and newer('user') then outcome = 'open' end

local rewake = false
local k = function(offset) return KEYS[tonumber(ARGV[i + offset])] end
while i <= #ARGV do
  local op = ARGV[i]
  if op == 'log' then call('RPUSH', log, ARGV[i + 1])
  elseif op == 'event' then
    call('XADD', k(1), 'MAXLEN', '~', ARGV[i + 3], '*', 'data', ARGV[i + 2])
    call('EXPIRE', k(1), ARGV[i + 4])
  elseif op == 'delta' then
    call('XADD', k(1), 'MAXLEN', '~', ARGV[i + 3], '*', 'data', ARGV[i + 2], 'd', ARGV[i + 5])
  elseif op == 'set' then
    local n = tonumber(ARGV[i + 2])
    call('HSET', k(1), unpack(ARGV, i + 3, i + 2 + 2 * n))
    i = i + 3 + 2 * n - 1
  elseif op == 'cut' then
    if call('HGET', k(1), ARGV[i + 2]) == ARGV[i + 3] then call('HDEL', k(1), ARGV[i + 2]) end
  elseif op == 'setnx' then call('HSETNX', k(1), ARGV[i + 2], ARGV[i + 3])
  elseif op == 'unset' then call('HDEL', k(1), ARGV[i + 2])
  elseif op == 'incr' then call('HINCRBYFLOAT', k(1), ARGV[i + 2], ARGV[i + 3])
  elseif op == 'unmail' then call('ZREMRANGEBYSCORE', mail, ARGV[i + 1], ARGV[i + 1])
  elseif op == 'push' then
    call('RPUSH', k(1), ARGV[i + 2])
    if ARGV[i + 3] ~= '0' then call('LTRIM', k(1), -tonumber(ARGV[i + 3]), -1) end
  elseif op == 'post' then post(k(1), k(2), k(3), ARGV[i + 4], ARGV[i + 5], ARGV[i + 6])
  elseif op == 'queue' then call('XADD', k(1), '*', 'data', ARGV[i + 2])
  elseif op == 'timer' then call('ZADD', k(1), now() + tonumber(ARGV[i + 3]), ARGV[i + 2])
  elseif op == 'untimer' then call('ZREM', k(1), ARGV[i + 2])
  elseif op == 'rank' then call('ZADD', k(1), ARGV[i + 3], ARGV[i + 2])
  elseif op == 'unrank' then call('ZREM', k(1), ARGV[i + 2])
  elseif op == 'ring' then call('XADD', k(1), 'MAXLEN', '~', '1000', '*', 's', ARGV[i + 2])
  elseif op == 'expire' then call('EXPIRE', k(1), ARGV[i + 2])
  elseif op == 'rewake' then rewake = true
  elseif op == 'finish' then if outcome == 'open' then break end
  else return redis.error_reply('unknown operation ' .. tostring(op)) end
  i = i + (width[op] or 1)
end

if mode ~= 'go' and outcome == 'ok' then
  for _, m in ipairs(call('ZRANGE', mail, 0, -1)) do
    local kind = string.match(m, '^%d+ (%l+) ')
    if kind ~= 'user' and kind ~= 'result' then call('ZREM', mail, m) end
  end
  call('HDEL', header, 'control')
end

call('HINCRBY', header, 'v', 1)
call('HSET', header, 'last_step', ARGV[3], 'last_outcome', outcome, 'starts', 0, 'exp', 0, 'wake', '')
call('XACK', stream, group, wake_id)
if rewake or #call('ZRANGEBYSCORE', mail, '(' .. read, '+inf', 'LIMIT', 0, 1) > 0 then wake(header, stream, actor) end
return {outcome, now()}
