-- Stands before every script.

-- Calls a function and returns what it returns; or the error's text, if Redis refused one of its commands. Servers
-- differ in what they throw: a table with the text, or the text itself.
local function guarded(call, ...)
  local done, reply = pcall(call, ...)
  if done then
    return reply
  end
  return type(reply) == 'table' and reply.err or reply
end

