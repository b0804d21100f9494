-- Give the lease back, so that the next router need not wait for its end.
-- KEYS lease   ARGV owner
if call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
call('HSET', KEYS[1], 'exp', 0)
return 1
