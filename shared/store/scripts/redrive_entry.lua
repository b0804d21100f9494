-- Append a dead-lettered entry to its stream again, once.
-- KEYS guard stream   ARGV guard-ttl data   Returns how many were appended.
expect_kind('stream', KEYS[2])
if not call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1]) then return 0 end
call('XADD', KEYS[2], '*', 'data', ARGV[2])
return 1
