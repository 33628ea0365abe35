-- Appends entries to lease streams of one queue and tells whoever listens.
-- KEYS       the streams
-- ARGV[1]    the group
-- ARGV[2]    the channel of the hint
-- ARGV[3]    the hint
-- then for each stream: the number of its entries, and their payloads
-- Returns for each stream 1 if it was missing and was made anew, else 0; or the error's text if its key is unusable.
local group = ARGV[1]
local place = 4
local result = {}

local function has_group(key)
  for _, each in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    if each[2] == group then
      return true
    end
  end
  return false
end

local function append(key, first, last)
  local missing = 1 - redis.call('EXISTS', key)
  if missing == 1 or not has_group(key) then
    redis.call('XGROUP', 'CREATE', key, group, '0', 'MKSTREAM')
  end
  for payload = first, last do
    redis.call('XADD', key, '*', 'e', ARGV[payload])
  end
  return missing
end

for index, key in ipairs(KEYS) do
  local count = tonumber(ARGV[place])
  result[index] = guarded(append, key, place + 1, place + count)
  place = place + 1 + count
end
redis.call('PUBLISH', ARGV[2], ARGV[3])
return result
