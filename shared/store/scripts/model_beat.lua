-- Keep places at a model. One that has ended meanwhile may be another's, and is not taken again.
-- KEYS places   ARGV lease-ms place...
for at = 2, #ARGV do call('ZADD', KEYS[1], 'XX', now() + tonumber(ARGV[1]), ARGV[at]) end
call('PEXPIRE', KEYS[1], ARGV[1])
return 1
