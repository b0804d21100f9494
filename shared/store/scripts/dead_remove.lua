-- Remove a dead letter: it was redriven, or a person has discarded it.
-- KEYS dead claim   ARGV entry-id why ('redriven' or 'discarded') ttl
-- Returns 'ok' | 'gone' | 'busy' (it is being redriven: it cannot be discarded now)
if ARGV[2] == 'redriven' then call('SET', KEYS[2], 'done', 'EX', ARGV[3])
else
  local begun = call('GET', KEYS[2])
  if begun and begun ~= 'done' then return 'busy' end
end
if call('XDEL', KEYS[1], ARGV[1]) == 0 then return 'gone' end
return 'ok'
