-- Shared by all scripts: each is loaded behind the parts of this file that it uses (`shared/store/script.py`). An empty
-- line ends a part.
-- An actor is a header (hash), two boxes of numbered mail and a stream of wake-ups. Its `messages` hold what users have
-- said: any number, read in bounded pieces. Its `signals` hold what tools, timers and clients tell it: few, read whole.
local call = redis.call

-- What a script has written cannot be undone: a key that somebody else has written is found before the first write. The
-- server refuses to tell the length of what is of another kind.
local function expect_kind(kind, ...)
  for _, key in ipairs({...}) do
    if kind == 'hash' then call('HLEN', key)
    elseif kind == 'list' then call('LLEN', key)
    elseif kind == 'stream' then call('XLEN', key)
    else call('ZCARD', key) end
  end
end

local time -- of this script, in ms: it does not pass while a script runs
local function now()
  if not time then
    local t = call('TIME')
    time = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return time
end

-- Whether an entry id comes before another. Numbers of Lua are exact to 2^53 only; ids go to 2^64.
local function id_less(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  local x, y = a_ms, b_ms
  if x == y then x, y = a_seq, b_seq end
  if #x ~= #y then return #x < #y end
  return x < y
end

-- Whether this token is the lease's. It is a counter and a nonce of its taker: a Redis that lost its last writes counts
-- again from an earlier number, and must not give an old holder's token to a new one.
local function token_of(n, nonce)
  return n and n .. '.' .. (nonce or '')
end
local function holds(header, token)
  return token_of(unpack(call('HMGET', header, 'token', 'nonce'))) == token
end

-- For how many ms a lease still runs; 0 when it is over. One whose end lies further ahead than a lease is long was taken
-- before the clock stepped back: it is over too.
local function lease_left(expires, length, t)
  local left = tonumber(expires or '0') - t
  if left <= 0 or left > tonumber(length) then return 0 end
  return left
end

-- A timer is due some ms after the time at which it was set. That time is kept beside it: one that lies in the future was
-- set before the clock stepped back, and the timer then begins anew (`restart_timer`).
local function set_timer(timers, member, due, set_at)
  call('ZADD', timers, due, member)
  call('ZADD', timers .. ':set', set_at, member)
end

-- A timer that is due at a date, not after a while: it is late when the clock steps back, as dates are.
local function set_date(timers, member, due)
  call('ZADD', timers, due, member)
  call('ZREM', timers .. ':set', member)
end

local function remove_timers(timers, ...)
  call('ZREM', timers, ...)
  call('ZREM', timers .. ':set', ...)
end

-- Acknowledge an entry that names this; returns whether it was pending. A Redis that lost its last writes may give their
-- ids again: an entry of this id can by now be another's work.
local function ack(stream, group, id, name)
  local entry = call('XRANGE', stream, id, id)[1]
  if entry and not string.find(entry[2][2], name, 1, true) then return 0 end
  return call('XACK', stream, group, id)
end

-- How a wake-up names its actor: in full, for one name may begin with another.
local function named(actor)
  return '"actor":"' .. actor .. '"'
end

local woken = 0 -- wake-ups that this script has added: whoever runs it counts them

-- The one place that spells a wake-up.
local function add_wake_up(stream, actor)
  woken = woken + 1
  return call('XADD', stream, '*', 'data', '{"type":"wake_up","version":1,' .. named(actor) .. '}')
end

-- The one place that makes an actor's wake-up. The header's `wake` names the only current one.
local function wake(header, stream, actor)
  local id = add_wake_up(stream, actor)
  call('HSET', header, 'wake', id)
end

-- Likewise, unless it has a current one.
local function wake_once(header, stream, actor)
  local current = call('HGET', header, 'wake')
  if not current or current == '' then wake(header, stream, actor) end
end

-- Mail is numbered by the header's counter; a wake-up is added when none is current.
local function post(header, box, stream, actor, kind, body)
  local n = call('HINCRBY', header, 'mail', 1)
  call('ZADD', box, n, n .. ' ' .. kind .. ' ' .. body)
  wake_once(header, stream, actor)
  return n
end

-- The oldest messages of a box: so many and so many bytes at most, but one at least.
local function oldest(messages, most, most_bytes)
  local found, size = call('ZRANGE', messages, 0, most - 1), 0
  for n, member in ipairs(found) do
    size = size + #member
    if size > most_bytes and n > 1 then return {unpack(found, 1, n - 1)} end
  end
  return found
end

-- Count messages that wait to be taken into a step: all of the shard, and those of a tenant.
local function count_waiting(load, tenant, by)
  if call('HINCRBY', load, 'mail', by) < 0 then call('HSET', load, 'mail', 0) end
  if call('HINCRBY', load, 'tenant:' .. tenant, by) <= 0 then call('HDEL', load, 'tenant:' .. tenant) end
end

-- Messages that lie with a paused task wait for a person, not for a step: they are parked, which is counted apart, of the
-- shard, of their tenant and of their session. The task's header says how many of its messages are; from now on `n` are.
local function park(load, header, tenant, session, n)
  local more = n - tonumber(call('HGET', header, 'parked') or 0)
  if more == 0 then return end
  count_waiting(load, tenant, -more)
  for _, whose in ipairs({'parked', 'parked:' .. tenant, 'parked:' .. tenant .. '/' .. session}) do
    if call('HINCRBY', load, whose, more) <= 0 then call('HDEL', load, whose) end
  end
  if n > 0 then call('HSET', header, 'parked', n) else call('HDEL', header, 'parked') end
end

-- Whether this inbound entry had been appended by the time at which a session or a user was erased.
local function was_erased(mark, entry, generation)
  local up_to, of = unpack(call('HMGET', mark, 'entry', 'generation'))
  return up_to and of == generation and not id_less(up_to, entry)
end

-- A message enters its session, in the order of the inbound stream and once by its message id. What was erased stays so:
-- a message of before is dropped, however late it comes.
-- erased, of_user: the marks of the session and of the user; the second is nil, or the first again, for no user
-- generation: of the inbound stream; ids of one that was replaced do not compare with those of its successor
-- digest: of the message's text; the mark of its id keeps it, so that another text under the same id is noticed
-- Returns 'new' | 'repeat' | 'old' | 'other': its id was accepted with another text. Nothing is written then.
local function arrive(header, seen, index, erased, of_user, entry, generation, session, digest, session_ttl, seen_ttl)
  local last, known = unpack(call('HMGET', header, 'last_in', 'in_gen'))
  if not last and was_erased(erased, entry, generation) then return 'old' end
  if of_user and of_user ~= erased and was_erased(of_user, entry, generation) then return 'old' end
  -- Before it is asked whether the entry is old: until it is set aside it is refused again, each time that it is read.
  local first = redis.pcall('GET', seen) -- what is no text there is taken for a mark without a digest
  local accepted = type(first) == 'string' and string.match(first, ' (%x+)$')
  if accepted and accepted ~= digest then return 'other' end
  if last and (known or '') == generation and not id_less(last, entry) then return 'old' end
  call('HSET', header, 'last_in', entry, 'in_gen', generation)
  call('EXPIRE', header, session_ttl)
  if not call('SET', seen, entry .. ' ' .. digest, 'NX', 'EX', seen_ttl) then return 'repeat' end
  local at = math.min(tonumber(string.match(entry, '^%d+')), now()) -- a producer's own id may be no time
  call('ZADD', index, at, session)
  call('ZREMRANGEBYSCORE', index, '-inf', at - tonumber(session_ttl) * 1000)
  call('EXPIRE', index, session_ttl)
  return 'new'
end

local function status_of(header)
  return call('HGET', header, 'status') or 'none'
end

-- Active tasks have places: each session so many, and the tenant so many in this shard. A task's field `place` says what it
-- has. '': nothing. 's': it waits in its session's queue. 't': it has a place of its session and waits in the tenant's queue.
-- 'a': it has both, and goes on. The hash `places` counts what is taken, and behind a '?' who waits: so nobody looks into an
-- empty queue. A queue is a sorted set of `HEADER ACTOR`, numbered as they came.
local function line_up(places, name, queue, entry)
  local last = call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
  call('ZADD', queue, (last or 0) + 1, entry)
  call('HSET', places, '?' .. name, call('ZCARD', queue))
end

-- Places that are free go to those who wait, in order: a few at once, for a limit may have been raised by many. Its own
-- functions are made only when it runs, which is seldom.
-- own, of_session: what a session's places are counted under, and its queue   limits: of a session and of a tenant
local function give_places(places, own, of_session, tenant, of_tenant, limits, stream)
  local session_most, tenant_most = string.match(limits, '^(%d+) (%d+)$')
  local function count_waiting_in(name, queue)
    local n = call('ZCARD', queue)
    if n > 0 then call('HSET', places, '?' .. name, n) else call('HDEL', places, '?' .. name) end
  end
  local function next_one(name, most, queue, place)
    while tonumber(call('HGET', places, name) or 0) < tonumber(most) do
      local entry = call('ZPOPMIN', queue)[1]
      if not entry then return end
      local header, actor = string.match(entry, '^(%S+) (%S+)$')
      if redis.pcall('HGET', header, 'place') == place then
        call('HINCRBY', places, name, 1)
        return entry, header, actor
      end
    end
  end
  for _ = 1, 16 do
    local entry, header = next_one(own, session_most, of_session, 's')
    if not entry then break end
    call('HSET', header, 'place', 't')
    line_up(places, tenant, of_tenant, entry)
  end
  for _ = 1, 16 do
    local entry, header, actor = next_one(tenant, tenant_most, of_tenant, 't')
    if not entry then break end
    call('HSET', header, 'place', 'a')
    wake_once(header, stream, actor)
  end
  count_waiting_in(own, of_session)
  count_waiting_in(tenant, of_tenant)
end

-- The doorbell: a session has news. Ids of one stream never go back, so the time of its last ring is that of the shard: it
-- does not step back with the clock, and a new primary has it as it has all that was written before.
local rung -- the id of this script's last ring
local rung_bell
local function ring(bell, name)
  rung_bell, rung = bell, call('XADD', bell, 'MAXLEN', '~', '1000', '*', 's', name)
end

-- Ring for no session, under an id of this time, or of the last ring if that is later; returns the id.
local function ring_at(bell, ms)
  local id = redis.pcall('XADD', bell, 'MAXLEN', '~', '1000', string.format('%.0f-*', ms), 's', '')
  return type(id) == 'string' and id or call('XADD', bell, 'MAXLEN', '~', '1000', '*', 's', '')
end

-- Have the time of the shard be no earlier than this and the clock, and return it. What is told from now on has no earlier
-- id, wherever the clock steps: so ids tell whether an event came before something else.
local function shard_time(bell, at_least)
  return tonumber((string.match(ring_at(bell, math.max(now(), at_least)), '^%d+')))
end

-- Whether an id is ahead of the clock, which is asked again: before Redis 7.2 time passes while a script runs.
local function is_ahead(id)
  local ms = tonumber((string.match(id, '^%d+')))
  if ms <= now() then return false end
  local t = call('TIME')
  return ms > t[1] * 1000 + math.floor(t[2] / 1000)
end

-- Append a durable event to a session's stream; `ring` comes first, as events have the time of the shard. While the clock is
-- behind that, events have one time, and Redis would count their ids up from 0: a new primary that lacks the last entries
-- would give their ids to other events, and clients that know the lost ones would miss those; and a stream that had ended
-- would begin again before the cursors of its readers. There ids go on with the number of the ring, so that they do not go
-- back either, and have a part by chance that no other history gives.
local function by_chance(id, factor, event)
  local ms, n = string.match(id, '^(%d+)-(%d+)$')
  local chance = tonumber(string.sub(redis.sha1hex(event .. now()), 1, 6), 16) -- less than 2^24
  return string.format('%s-%.0f', ms, n * factor + 1024 + chance)
end
local function append_event(events, event, maxlen)
  if is_ahead(rung) then
    local id = by_chance(rung, 2 ^ 24, event)
    if type(redis.pcall('XADD', events, 'MAXLEN', '~', maxlen, id, 'data', event)) == 'string' then return end
  end
  local id = call('XADD', events, 'MAXLEN', '~', maxlen, '*', 'data', event)
  if not is_ahead(id) or #string.match(id, '%d+$') > 18 then return end
  call('XDEL', events, id) -- Redis has counted it up from the stream's own last id, which is ahead
  id = by_chance(id, 1, event)
  call('XADD', events, id, 'data', event)
  if tonumber((string.match(id, '^%d+'))) > tonumber((string.match(rung, '^%d+'))) then
    rung = ring_at(rung_bell, string.match(id, '^%d+'))
  end
end

-- One event for a session's clients, and the doorbell.
local function tell(events, event, maxlen, ttl, bell, name)
  ring(bell, name)
  append_event(events, event, maxlen)
  call('EXPIRE', events, ttl)
end

-- Have the events of a turn or task collected for who has asked for them. The set is read by numbers that only grow: also
-- when it was empty meanwhile, they are behind those of before. A tenant may have half of the places: they are counted
-- when half of all are taken. Returns 1, -1 when there are too many, or -2 when the tenant has too many.
local function follow_turn(callbacks, id, ttl, most, tenant)
  expect_kind('zset', callbacks)
  if not call('ZSCORE', callbacks, id) then
    local all = call('ZCARD', callbacks)
    if all >= tonumber(most) then return -1 end
    if all * 2 >= tonumber(most) then
      local own, begins = 0, tenant .. ':'
      for _, each in ipairs(call('ZRANGE', callbacks, 0, -1)) do
        if string.sub(each, 1, #begins) == begins then own = own + 1 end
      end
      if own * 2 >= tonumber(most) then return -2 end
    end
  end
  local last = call('ZRANGE', callbacks, -1, -1, 'WITHSCORES')[2]
  call('ZADD', callbacks, string.format('%.0f', math.max((last or 0) + 1, now())), id)
  call('EXPIRE', callbacks, ttl)
  return 1
end

-- Events on their way to webhooks. A webhook has lanes, each a list of events that are sent in order; a lane is due at the
-- score that it has in `webhook-due`, the webhook at that of its first lane. The hash of the webhook counts what waits.
-- Its field `set` says when a lane got its time last: one in the future is of a clock that has stepped back since, and what
-- is due later than now may be so by mistake (`webhook_restart`).
local function webhook_keys(waiting, id)
  local tag = string.match(waiting, '^(.*}:)')
  return tag .. 'webhook:' .. id, tag .. 'webhook-due:' .. id, tag .. 'webhook-lane:' .. id .. ':'
end
local function settle_webhook(waiting, id)
  local state, due = webhook_keys(waiting, id)
  local first = call('ZRANGE', due, 0, 0, 'WITHSCORES')
  if first[1] then
    call('ZADD', waiting, first[2], id)
  else
    call('ZREM', waiting, id)
    call('DEL', state)
  end
end
local function set_due(waiting, id, lane, at)
  local state, due = webhook_keys(waiting, id)
  call('ZADD', due, at, lane)
  if now() > tonumber(call('HGET', state, 'set') or 0) then call('HSET', state, 'set', now()) end
end
local function push_delivery(waiting, id, lane, entry, event)
  local state, _, lanes = webhook_keys(waiting, id)
  local item = entry .. ' ' .. now() .. ' ' .. event
  if call('RPUSH', lanes .. lane, item) == 1 then
    set_due(waiting, id, lane, now())
    call('ZADD', waiting, 'LT', now(), id)
  end
  call('HINCRBY', state, 'count', 1)
  call('HINCRBY', state, 'bytes', #item)
end
-- Take the first event of a lane; the next one is due at once.
local function pop_delivery(waiting, id, lane)
  local state, due, lanes = webhook_keys(waiting, id)
  local item = call('LPOP', lanes .. lane)
  call('HINCRBY', state, 'count', -1)
  call('HINCRBY', state, 'bytes', -#item)
  call('HDEL', state, 'try:' .. lane)
  if call('EXISTS', lanes .. lane) == 1 then set_due(waiting, id, lane, now()) else call('ZREM', due, lane) end
end
