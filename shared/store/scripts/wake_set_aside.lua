-- Dead-letter a wake-up that nobody can read, or whose actor nobody can work with, and acknowledge it, at once.
-- Its actor must not stay without one: it gets a new one, or, when it cannot be worked with, one with its next mail.
-- KEYS stream dead header   ARGV group entry-id dead-letter actor again ('1', or '' for not before its next mail)
-- Returns {whether it was pending, wake-ups added}
expect_kind('stream', KEYS[1], KEYS[2])
expect_kind('hash', KEYS[3])
if ack(KEYS[1], ARGV[1], ARGV[2], ARGV[4]) == 0 then return {0, 0} end
call('XADD', KEYS[2], '*', 'data', ARGV[3])
if call('HGET', KEYS[3], 'wake') ~= ARGV[2] then return {1, 0} end
if ARGV[5] == '1' then wake(KEYS[3], KEYS[1], ARGV[4]) else call('HSET', KEYS[3], 'wake', '') end
return {1, woken}
