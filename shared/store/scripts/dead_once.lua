-- Set an inbound entry aside exactly once, whatever id it had: ids of a stream that was replaced begin again.
-- KEYS guard dead   ARGV guard-ttl dead-letter   Returns 1, or 0 when it was set aside before.
if not call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1]) then return 0 end
call('XADD', KEYS[2], '*', 'data', ARGV[2])
return 1
