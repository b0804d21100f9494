-- Shared by all scripts: prepended to each before it is loaded.
-- An actor is a header (hash), a mailbox (sorted set of numbered mail) and a stream of wake-ups.
local call = redis.call

local function now()
  local t = call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The one place that spells a wake-up.
local function add_wake_up(stream, actor)
  return call('XADD', stream, '*', 'data', '{"type":"wake_up","version":1,"actor":"' .. actor .. '"}')
end

-- The one place that makes an actor's wake-up. The header's `wake` names the only current one.
local function wake(header, stream, actor)
  local id = add_wake_up(stream, actor)
  call('HSET', header, 'wake', id)
end

-- Mail is numbered by the header's counter; a wake-up is added when none is current.
local function post(header, mail, stream, actor, kind, body)
  local n = call('HINCRBY', header, 'mail', 1)
  call('ZADD', mail, n, n .. ' ' .. kind .. ' ' .. body)
  local current = call('HGET', header, 'wake')
  if not current or current == '' then wake(header, stream, actor) end
  return n
end

local function status_of(header)
  return call('HGET', header, 'status') or 'none'
end

-- One event for a session's clients, and the doorbell.
local function tell(events, event, maxlen, ttl, bell, name)
  call('XADD', events, 'MAXLEN', '~', maxlen, '*', 'data', event)
  call('EXPIRE', events, ttl)
  call('XADD', bell, 'MAXLEN', '~', '1000', '*', 's', name)
end
