-- Correct what was taken of a day's budget of extraction, once it is known what the call has cost.
-- KEYS spending   ARGV tenant difference   A day whose hash is gone stays gone: it would never end.
expect_kind('hash', KEYS[1])
if call('EXISTS', KEYS[1]) == 0 then return 0 end
call('HINCRBY', KEYS[1], 'tokens', ARGV[2])
call('HINCRBY', KEYS[1], 'tokens:' .. ARGV[1], ARGV[2])
return 1
