-- Give up the claim on a dead letter, if it is still ours.
-- KEYS claim   ARGV edit
if call('GET', KEYS[1]) == '+' .. ARGV[1] then call('DEL', KEYS[1]) end
