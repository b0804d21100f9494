-- Remove what Redis has of a task, and what its session knows of it; the mark keeps it from coming back.
-- One that goes on, or has messages that wait, is left as it is unless it is forced: it is to end first.
-- KEYS mark timers load places queue wake-stream index session-header turns, then the task's keys (header, messages first)
-- ARGV ttl forced ('1', or '') task tenant session limits (of active tasks, of a session and of a tenant) timer-kind...
-- Returns {whether it is gone, wake-ups added}
local mark, timers, load, places, of_tenant, stream, index, session_header, turns, header, messages = unpack(KEYS)
local ttl, forced, task, tenant, session, limits = unpack(ARGV, 1, 6)
local status, place = unpack(call('HMGET', header, 'status', 'place'))
local waiting = call('ZCARD', messages)
local ended = not status or status == 'completed' or status == 'failed' or status == 'cancelled'
if forced == '' and not (ended and waiting == 0) then return {0, 0} end

call('HSET', mark, 'at', now(), 'session', session)
call('EXPIRE', mark, ttl)
park(load, header, tenant, session, 0)
if waiting > 0 then count_waiting(load, tenant, -waiting) end
for n = 10, #KEYS do call('DEL', KEYS[n]) end
for n = 7, #ARGV do remove_timers(timers, ARGV[n] .. ' ' .. tenant .. '/' .. task) end
call('ZREM', index, task)
for _, field in ipairs({'live:', 'digest:', 'answer:'}) do call('HDEL', session_header, field .. task) end
if call('HGET', session_header, 'done') == task then call('HDEL', session_header, 'done', 'done_at') end
for _, turn in ipairs(call('LRANGE', turns, 0, -1)) do
  if string.find(turn, '"task_id":"' .. task .. '"', 1, true) then call('LREM', turns, 1, turn) end
end

if (place or '') ~= '' then
  local own, of_session, entry = tenant .. '/' .. session, of_tenant .. ':' .. session, header .. ' ' .. tenant .. '/' .. task
  local function give_back(name)
    if call('HINCRBY', places, name, -1) <= 0 then call('HDEL', places, name) end
  end
  if place == 's' then call('ZREM', of_session, entry) else give_back(own) end
  if place == 't' then call('ZREM', of_tenant, entry) end
  if place == 'a' then give_back(tenant) end
  give_places(places, own, of_session, tenant, of_tenant, limits, stream)
end
return {1, woken}
