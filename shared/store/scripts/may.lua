-- Which commands of our scripts the user may not run: a script that is refused in its middle cannot be undone.
-- KEYS probe   ARGV commands, with a subcommand behind a space   Returns those that are not allowed.
local denied = {}
for _, command in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(command, '%S+') do words[#words + 1] = word end
  words[#words + 1] = KEYS[1]
  if not redis.acl_check_cmd(unpack(words)) then denied[#denied + 1] = command end
end
return denied
