-- Drop what waits in lanes of a webhook, in as many calls as the caller likes.
-- KEYS waiting   ARGV webhook until (ms: events of later stay; '': all go) lane...   Returns how many events were dropped.
local waiting, id, last = KEYS[1], ARGV[1], tonumber(ARGV[2])
local state, due, lanes = webhook_keys(waiting, id)
local dropped = 0
for i = 3, #ARGV do
  local lane, stay = ARGV[i], 0
  for _ = 1, call('LLEN', lanes .. lane) do
    local item = call('LPOP', lanes .. lane)
    if last and tonumber(string.match(item, '^%d+')) > last then
      call('RPUSH', lanes .. lane, item)
      stay = stay + 1
    else
      call('HINCRBY', state, 'count', -1)
      call('HINCRBY', state, 'bytes', -#item)
      dropped = dropped + 1
    end
  end
  if stay == 0 then
    call('HDEL', state, 'try:' .. lane)
    call('ZREM', due, lane)
  end
end
settle_webhook(waiting, id)
return dropped
