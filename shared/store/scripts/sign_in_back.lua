-- Keep what a person has come back with from signing in. The first that comes is the only one.
-- KEYS asked back   ARGV back seconds
-- Returns {outcome, what the sign-in is for}   outcome: 'kept' | 'same' (as before) | 'other' (than before) | 'none'
local asked = call('GET', KEYS[1])
if not asked then return {'none', ''} end
local before = call('GET', KEYS[2])
if before then return {before == ARGV[1] and 'same' or 'other', asked} end
call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
return {'kept', asked}
