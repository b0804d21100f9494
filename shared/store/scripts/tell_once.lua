-- Tell a session's clients something exactly once, from outside a commit.
-- KEYS guard events bell   ARGV guard-ttl event maxlen ttl bell-name
expect_kind('stream', KEYS[2], KEYS[3])
if not call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1]) then return 0 end
tell(KEYS[2], ARGV[2], ARGV[3], ARGV[4], KEYS[3], ARGV[5])
return 1
