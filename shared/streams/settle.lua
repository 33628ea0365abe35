-- Acknowledges and deletes entries of lease streams of one queue: one without the other would leave a pending entry
-- without a body, or a body that nobody reads.
-- KEYS       the streams
-- ARGV[1]    the group
-- then for each stream: the number of its entries, and their ids
-- Returns for each stream 1, or the error's text if its key is unusable. Entries that are not there are no error.
local place = 2
local result = {}

local function settle(key, first, last)
  for id = first, last do
    redis.call('XACK', key, ARGV[1], ARGV[id])
    redis.call('XDEL', key, ARGV[id])
  end
  return 1
end

for index, key in ipairs(KEYS) do
  local count = tonumber(ARGV[place])
  result[index] = guarded(settle, key, place + 1, place + count)
  place = place + 1 + count
end
return result
