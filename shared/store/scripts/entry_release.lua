-- Hand an entry back that carries its own work: a copy at the stream's end, the original acknowledged, at once.
-- KEYS stream   ARGV group consumer, then id data of each   Returns how many were handed back.
local done = 0
for n = 3, #ARGV, 2 do
  local p = call('XPENDING', KEYS[1], ARGV[1], ARGV[n], ARGV[n], 1)
  if p[1] and p[1][2] == ARGV[2] and ack(KEYS[1], ARGV[1], ARGV[n], ARGV[n + 1]) == 1 then
    call('XADD', KEYS[1], '*', 'data', ARGV[n + 1])
    done = done + 1
  end
end
return done
