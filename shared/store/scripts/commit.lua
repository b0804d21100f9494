-- The one way in which a handling of an actor ends (law 2): state, events, other actors' mail and the acknowledgement at once.
-- KEYS header messages signals log stream, of a task: places queue, then whatever the operations name by index
-- ARGV token ('': nobody has taken the actor, because it had nothing to do) version step-id read seen group wake-id actor mode
--   kinds places, then operations
--   read, seen: numbers of the newest message and the newest signal that the step knows
--   kinds: what each of KEYS must hold, or nothing: (h)ash (l)ist (s)tream (z)set, (-) is not asked
--   places: what this commit means for a task's place, see _lib. '': nothing, it stays active; or limits of active tasks, of a
--           session and of a tenant: it is 'pending' (that word before them) or rests, and gives back what it had
--   mode: 'continue'  no end
--         'complete'  an end, unless a message has come since: then the step commits without its end
--         'stop'      an end that takes all messages with it, also those that it has not read: `ended_mail` says up to which
--         'fail'      an end; messages that have come start the next turn, also after a good end where an instruction queues
--                     them. Refused as 'overtaken' when a cancel has come since: it meant them too
--   An end takes all signals with it but results, redrives and moves: what was asked of the task as it was must not meet
--   the next turn.
-- Operations (k is an index into KEYS):
--   expect k status          refuse as 'overtaken' unless the actor has this status (checked before anything is written)
--   no-new-result            refuse as 'overtaken' when a tool's result, or a person's decision about a call, has come that the
--                            step has not seen
--   arrive seen index load erased erased-user entry generation session tenant digest session-ttl seen-ttl
--                            the message that this is about enters its session, or the commit is refused as 'overtaken'
--   no-new-message           likewise for a message that the step has not read
--   unmail n                 remove signal number n
--   consume n k tenant       remove the messages up to number n: they wait no more, which is counted in k
--   pass n                   remove the messages up to number n: they go on waiting elsewhere
--   log json                 append to the transcript
--   push k json cap          append to a list, keep the last cap (0: all)
--   drop k json              remove the last entry of a list that is this
--   set k n m field value ...
--                            n pairs, of which the first m get the server's time as their value
--   unset k n field ...      incr k field n
--   setnx k field value      cut k field value     remove the field if it has this value
--   event k json maxlen ttl  append to an event stream      delta k json maxlen ttl d   likewise, with the field d
--   post h box s actor kind body
--   report h box s actor kind body control
--                            likewise, unless that actor is gone; control: what its beat is to notice, or ''
--   queue k json             append to a work stream
--   timer k member ms        due that many ms from now     due k member ms    due at this date
--   untimer k n member ...
--   begin header index member erased erased-user
--                            a task begins, by the server's time and later than what was erased: entered into the index by it
--   list k name              a session is listed, by the server's time
--   ring k name              the session has news
--   expire k seconds         a time to live
--   enter k ms member        a call that waits until that time is entered into an index, which lives a day longer
--   leave k member           it waits no more
--   rewake                   wake again even though no newer mail came
--   finish                   what follows belongs to the end
-- Returns {outcome, now, wake-ups added for others, wake-ups added for itself}
--   outcome: 'committed' | 'continued' (committed without its end) | 'overtaken' | 'lost'; of a refusal nothing but the time is said
local header, messages, signals, log, stream = unpack(KEYS, 1, 5)
local t = now()

-- When what a mark is of was erased, in ms.
local function erased_at(mark)
  return tonumber(call('HGET', mark, 'at') or 0)
end

local last_step, last_outcome, version, current, n, nonce, place, session, paused, parked = unpack(call('HMGET', header,
  'last_step', 'last_outcome', 'v', 'wake', 'token', 'nonce', 'place', 'session', 'paused', 'parked'))
if last_step == ARGV[3] then return {last_outcome or 'committed', t, 0, 0} end
if (version or '0') ~= ARGV[2] then return {'lost', t} end
if ARGV[1] == '' then
  if (current or '') ~= '' then return {'lost', t} end
elseif token_of(n, nonce) ~= ARGV[1] then return {'lost', t} end

local read, seen = '(' .. ARGV[4], '(' .. ARGV[5]
local group, wake_id, actor, mode = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
-- Whether there is newer mail than the step knows. Asked before anything is written: the server refuses to search a box
-- that somebody else has made something else.
local newer_message = call('ZRANGEBYSCORE', messages, read, '+inf', 'LIMIT', 0, 1)[1]
local newer = call('ZRANGEBYSCORE', signals, seen, '+inf', 'LIMIT', 0, 1)[1]

-- Whether a signal of this kind has come that the step has not seen.
local function newer_signal(kind)
  if not newer then return false end
  for _, m in ipairs(call('ZRANGEBYSCORE', signals, seen, '+inf')) do
    if string.match(m, '^%d+ (%l+) ') == kind then return true end
  end
  return false
end

local waits, limits = string.match(ARGV[11], '^(%l*) ?(%d+ %d+)$')
local places, of_tenant, tenant, own, of_session, taken
if limits and (place or '') ~= '' then
  places, of_tenant, tenant = KEYS[6], KEYS[7], string.match(actor, '^[^/]+')
  own, of_session = tenant .. '/' .. (session or ''), of_tenant .. ':' .. (session or '')
  taken = call('HMGET', places, own, tenant, '?' .. own, '?' .. tenant)
  if taken[3] or taken[4] then expect_kind('zset', of_session, of_tenant) end
end

local i = 12
while ARGV[i] == 'expect' or ARGV[i] == 'no-new-result' or ARGV[i] == 'no-new-message' do
  if ARGV[i] == 'no-new-result' then
    if newer_signal('result') or newer_signal('approval') then return {'overtaken', t} end
    i = i + 1
  elseif ARGV[i] == 'no-new-message' then
    if newer_message then return {'overtaken', t} end
    i = i + 1
  else
    if status_of(KEYS[tonumber(ARGV[i + 1])]) ~= ARGV[i + 2] then return {'overtaken', t} end
    i = i + 3
  end
end

local length = {h = 'HLEN', l = 'LLEN', s = 'XLEN', z = 'ZCARD'} -- refused for what is of another kind, see expect_kind
for n, key in ipairs(KEYS) do
  local ask = length[string.sub(ARGV[10], n, n)]
  if ask then call(ask, key) end
end

local load -- of a task that may be paused: with it, its messages are counted
if limits or (paused or '') ~= '' or parked then
  load = string.gsub(KEYS[6], 'places$', 'load')
  expect_kind('hash', load)
end

local outcome, rewake = 'committed', false
if mode == 'fail' and newer_signal('cancel') then return {'overtaken', t} end
if mode == 'complete' and newer_message then outcome = 'continued' end

-- Until the end of this commit all messages of the task count as waiting, then those of a paused one are parked anew: so
-- it does not matter which of them the commit takes in, moves or ends.
local tenant_of = string.match(actor, '^[^/]+')
if parked then park(load, header, tenant_of, session or '', 0) end

local keeps = {} -- event streams whose time to live begins anew with this commit
local k = function(offset) return KEYS[tonumber(ARGV[i + offset])] end
if ARGV[i] == 'arrive' then
  local entry, generation, session, tenant, digest, session_ttl, seen_ttl = unpack(ARGV, i + 6, i + 12)
  local outcome = arrive(header, k(1), k(2), k(4), k(5), entry, generation, session, digest, session_ttl, seen_ttl)
  if outcome ~= 'new' then return {'overtaken', t} end
  count_waiting(k(3), tenant, 1)
  i = i + 13
end
while i <= #ARGV do
  local op, words = ARGV[i], 4
  if op == 'log' then
    words = 2
    call('RPUSH', log, ARGV[i + 1])
  elseif op == 'event' then
    words = 5
    append_event(k(1), ARGV[i + 2], ARGV[i + 3])
    if not keeps[k(1)] then call('EXPIRE', k(1), ARGV[i + 4]) end
    keeps[k(1)] = true
  elseif op == 'delta' then
    words = 6
    call('XADD', k(1), 'MAXLEN', '~', ARGV[i + 3], '*', 'data', ARGV[i + 2], 'd', ARGV[i + 5])
  elseif op == 'set' then
    local n, stamped = tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
    words = 4 + 2 * n
    for at = i + 5, i + 3 + 2 * stamped, 2 do ARGV[at] = t end
    call('HSET', k(1), unpack(ARGV, i + 4, i + 3 + 2 * n))
  elseif op == 'cut' then
    if call('HGET', k(1), ARGV[i + 2]) == ARGV[i + 3] then call('HDEL', k(1), ARGV[i + 2]) end
  elseif op == 'setnx' then call('HSETNX', k(1), ARGV[i + 2], ARGV[i + 3])
  elseif op == 'unset' then
    words = 3 + tonumber(ARGV[i + 2])
    call('HDEL', k(1), unpack(ARGV, i + 3, i + words - 1))
  elseif op == 'incr' then call('HINCRBYFLOAT', k(1), ARGV[i + 2], ARGV[i + 3])
  elseif op == 'unmail' then
    words = 2
    if call('ZREMRANGEBYSCORE', signals, ARGV[i + 1], ARGV[i + 1]) == 0 then
      call('ZREMRANGEBYSCORE', messages, ARGV[i + 1], ARGV[i + 1]) -- a message that is moved away unread
    end
  elseif op == 'consume' then
    local n = call('ZREMRANGEBYSCORE', messages, '-inf', ARGV[i + 1])
    if n > 0 then count_waiting(k(2), ARGV[i + 3], -n) end
  elseif op == 'pass' then
    words = 2
    call('ZREMRANGEBYSCORE', messages, '-inf', ARGV[i + 1])
  elseif op == 'push' then
    call('RPUSH', k(1), ARGV[i + 2])
    if ARGV[i + 3] ~= '0' then call('LTRIM', k(1), -tonumber(ARGV[i + 3]), -1) end
  elseif op == 'drop' then
    words = 3
    call('LREM', k(1), -1, ARGV[i + 2])
  elseif op == 'post' then
    words = 7
    post(k(1), k(2), k(3), ARGV[i + 4], ARGV[i + 5], ARGV[i + 6])
    newer = newer or k(1) == header -- mail to itself, e.g. the result of a call that nobody can run
  elseif op == 'report' then
    words = 8
    if status_of(k(1)) ~= 'none' then
      post(k(1), k(2), k(3), ARGV[i + 4], ARGV[i + 5], ARGV[i + 6])
      if ARGV[i + 7] ~= '' then call('HSET', k(1), 'control', ARGV[i + 7]) end
    end
  elseif op == 'queue' then
    words = 3
    call('XADD', k(1), '*', 'data', ARGV[i + 2])
  elseif op == 'timer' then set_timer(k(1), ARGV[i + 2], t + tonumber(ARGV[i + 3]), t)
  elseif op == 'due' then set_date(k(1), ARGV[i + 2], ARGV[i + 3])
  elseif op == 'untimer' then
    words = 3 + tonumber(ARGV[i + 2])
    remove_timers(k(1), unpack(ARGV, i + 3, i + words - 1))
  elseif op == 'begin' then
    words = 6
    local begun = math.max(t, erased_at(k(4)) + 1, erased_at(k(5)) + 1)
    call('HSET', k(1), 'created', begun)
    call('ZADD', k(2), begun, ARGV[i + 3])
  elseif op == 'list' then
    words = 3
    call('ZADD', k(1), t, ARGV[i + 2])
  elseif op == 'ring' then
    words = 3
    ring(k(1), ARGV[i + 2])
  elseif op == 'expire' then
    words = 3
    call('EXPIRE', k(1), ARGV[i + 2])
  elseif op == 'enter' then
    call('ZREMRANGEBYSCORE', k(1), '-inf', t - 86400000)
    call('ZADD', k(1), ARGV[i + 2], ARGV[i + 3])
    call('EXPIREAT', k(1), math.ceil(ARGV[i + 2] / 1000) + 86400, 'NX')
    call('EXPIREAT', k(1), math.ceil(ARGV[i + 2] / 1000) + 86400, 'GT')
  elseif op == 'leave' then
    words = 3
    call('ZREM', k(1), ARGV[i + 2])
  elseif op == 'rewake' then
    words = 1
    rewake = true
  elseif op == 'finish' then
    words = 1
    if outcome == 'continued' then break end
  else return redis.error_reply('unknown operation ' .. tostring(op)) end
  i = i + words
end

if mode ~= 'continue' and outcome == 'committed' then
  for _, m in ipairs(call('ZRANGE', signals, 0, -1)) do
    local kind = string.match(m, '^%d+ (%l+) ')
    if kind ~= 'result' and kind ~= 'redrive' and kind ~= 'move' then call('ZREM', signals, m) end
  end
  newer = call('ZRANGEBYSCORE', signals, seen, '+inf', 'LIMIT', 0, 1)[1]
  call('HDEL', header, 'control')
  if mode == 'stop' then call('HSET', header, 'ended_mail', call('HGET', header, 'mail') or 0) end
end

if load then
  local is_paused, status = unpack(call('HMGET', header, 'paused', 'status'))
  if (is_paused or '') ~= '' and (status == 'waiting' or status == 'stale') then
    park(load, header, tenant_of, session or '', call('ZCARD', messages))
  end
end

local kept = {}
if taken then
  local rests = waits == ''
  if rests and outcome == 'continued' then
    local status = status_of(header)
    rests = status ~= 'active' and status ~= 'pending'
  end
  local function give_back(name, n)
    if tonumber(n or 0) > 1 then call('HINCRBY', places, name, -1) else call('HDEL', places, name) end
  end
  if rests then
    kept = {'place', ''}
    if place == 's' then call('ZREM', of_session, header .. ' ' .. actor) else give_back(own, taken[1]) end
    if place == 't' then call('ZREM', of_tenant, header .. ' ' .. actor) end
    if place == 'a' then give_back(tenant, taken[2]) end
  end
  if taken[3] or taken[4] then give_places(places, own, of_session, tenant, of_tenant, limits, stream) end
  if not rests and call('HGET', header, 'place') == 'a' then rewake = true end -- it got it while it was told to wait
end

-- What `HEADER_FORMAT` says in shared/actors/headers.py: a later version knows by it how this header is read.
call('HSET', header, 'format', 1, 'v', ARGV[2] + 1, 'last_step', ARGV[3], 'last_outcome', outcome, 'starts', 0, 'exp', 0, 'wake', '',
  unpack(kept))
if wake_id ~= '' then call('XACK', stream, group, wake_id) end
local others = woken
if rewake or newer_message or newer then wake(header, stream, actor) end
return {outcome, t, others, woken - others}
