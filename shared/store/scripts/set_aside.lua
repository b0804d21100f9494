-- Dead-letter an entry that carries its own work, and acknowledge it, at once.
-- KEYS stream dead   ARGV group entry-id dead-letter
expect_kind('stream', KEYS[2])
if call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
call('XADD', KEYS[2], '*', 'data', ARGV[3])
return 1
