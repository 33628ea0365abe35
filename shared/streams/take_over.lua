-- Gives pending entries of silent consumers to another one, and forgets consumers that are long gone.
-- KEYS       streams of one queue
-- ARGV[1]    the group
-- ARGV[2]    the consumer that takes over
-- ARGV[3]    milliseconds for which an entry must have been pending
-- ARGV[4]    how many entries at most, over all streams
-- ARGV[5]    milliseconds after which a consumer without pending entries is forgotten
-- Returns for each stream a list of ids and payloads in turn, oldest first; none if stream or group is missing.
-- Or the error's text if a stream's key is unusable.
local group, consumer = ARGV[1], ARGV[2]
local room = tonumber(ARGV[4])
local result = {}

local function forget_consumers(key)
  for _, each in ipairs(redis.call('XINFO', 'CONSUMERS', key, group)) do
    local about = {}
    for field = 1, #each, 2 do
      about[each[field]] = each[field + 1]
    end
    if about.pending == 0 and about.idle > tonumber(ARGV[5]) then
      redis.call('XGROUP', 'DELCONSUMER', key, group, about.name)
    end
  end
end

local function claim(key, found)
  local cursor = '0-0'
  repeat
    local reply = redis.pcall('XAUTOCLAIM', key, group, consumer, ARGV[3], cursor, 'COUNT', room)
    if reply.err then
      return string.match(reply.err, '^%-?NOGROUP') and {} or reply.err
    end
    cursor = reply[1]
    for _, entry in ipairs(reply[2]) do
      found[#found + 1] = entry[1]
      found[#found + 1] = entry[2][2]
      room = room - 1
    end
  until cursor == '0-0' or room <= 0
  forget_consumers(key)
  return found
end

for index, key in ipairs(KEYS) do
  result[index] = {}
  if room > 0 and redis.call('EXISTS', key) == 1 then
    result[index] = guarded(claim, key, {})
  end
end
return result
