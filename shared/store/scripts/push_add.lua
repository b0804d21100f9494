-- Keep where the updates of a task are sent, while the task has not been archived.
-- KEYS task task-mark configs callbacks   ARGV name id webhook ttl most-of-task most tenant
-- Returns 1, -1 when there are too many, -2 when of the tenant, -3 without the task or when it is erased, -4 when of the task.
local task, mark, configs, callbacks = unpack(KEYS)
local name, id, webhook, ttl, most_of_task, most, tenant = unpack(ARGV)
if call('EXISTS', task) == 0 or call('EXISTS', mark) == 1 then return -3 end
expect_kind('hash', configs)
if call('HEXISTS', configs, name) == 0 and call('HLEN', configs) >= tonumber(most_of_task) then return -4 end
local outcome = follow_turn(callbacks, id, ttl, most, tenant)
if outcome == 1 then
  call('HSET', configs, name, webhook)
  call('EXPIRE', configs, ttl)
end
return outcome
