-- Give an actor a new wake-up when its current one is lost: deleted or trimmed, or acknowledged without a commit, by hand or
-- with its consumer. No other would be added as long as the header names it.
-- KEYS header stream   ARGV group actor lease-ms   Returns 1 when it was lost.
local header, stream = KEYS[1], KEYS[2]
expect_kind('hash', header)
expect_kind('stream', stream)
local wake_id, expires, length = unpack(call('HMGET', header, 'wake', 'exp', 'lease'))
if not wake_id or wake_id == '' then return 0 end
if lease_left(expires, length or ARGV[3], now()) > 0 then return 0 end -- its holder's commit ends it
if #call('XRANGE', stream, wake_id, wake_id) > 0 then
  local read_to
  for _, raw in ipairs(call('XINFO', 'GROUPS', stream)) do
    local g = {}
    for n = 1, #raw, 2 do g[raw[n]] = raw[n + 1] end
    if g['name'] == ARGV[1] then read_to = g['last-delivered-id'] end
  end
  if not read_to or id_less(read_to, wake_id) then return 0 end -- still to be read
  if #call('XPENDING', stream, ARGV[1], wake_id, wake_id, 1) > 0 then return 0 end
end
wake(header, stream, ARGV[2])
return 1
