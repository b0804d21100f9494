-- Remove a dead letter: it was redriven, or a person has discarded it.
-- KEYS dead claim   ARGV entry-id why ('redriven' or 'discarded') ttl   Returns whether it was there.
if ARGV[2] == 'redriven' then call('SET', KEYS[2], 'done', 'EX', ARGV[3]) end
return call('XDEL', KEYS[1], ARGV[1])
