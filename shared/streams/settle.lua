-- Acknowledges and deletes entries of lease streams of one queue: one without the other would leave a pending entry
-- without a body, or a body that nobody reads.
-- KEYS       the streams
-- ARGV[1]    the group
-- then for each stream: the number of its entries, and their ids
-- Returns nothing. Entries that are not there are no error.
local place = 2
for _, key in ipairs(KEYS) do
  local count = tonumber(ARGV[place])
  for id = place + 1, place + count do
    redis.call('XACK', key, ARGV[1], ARGV[id])
    redis.call('XDEL', key, ARGV[id])
  end
  place = place + 1 + count
end
return false
