-- Tell a session's clients something exactly once, from outside a commit.
-- KEYS guard events bell   ARGV guard-ttl event maxlen ttl bell-name
if not call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1]) then return 0 end
call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'data', ARGV[2])
call('EXPIRE', KEYS[2], ARGV[4])
call('XADD', KEYS[3], 'MAXLEN', '~', '1000', '*', 's', ARGV[5])
return 1
