-- Answer a request on its reply stream, which ends by itself.
-- KEYS reply-stream   ARGV reply ttl
call('XADD', KEYS[1], '*', 'data', ARGV[1])
call('EXPIRE', KEYS[1], ARGV[2])
return 1
