-- Drop lanes of a webhook with all that waits in them, in as many pieces as the caller likes.
-- KEYS waiting   ARGV webhook lane...   Returns how many events were dropped.
local waiting, id = KEYS[1], ARGV[1]
local state, due, lanes = webhook_keys(waiting, id)
local dropped = 0
for i = 2, #ARGV do
  local lane, bytes = ARGV[i], 0
  local items = call('LRANGE', lanes .. lane, 0, -1)
  for _, item in ipairs(items) do bytes = bytes + #item end
  dropped = dropped + #items
  call('HINCRBY', state, 'count', -#items)
  call('HINCRBY', state, 'bytes', -bytes)
  call('HDEL', state, 'try:' .. lane)
  call('DEL', lanes .. lane)
  call('ZREM', due, lane)
end
settle_webhook(waiting, id)
return dropped
