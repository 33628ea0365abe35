-- Reads new entries of lease streams of one queue for one consumer; never blocks.
-- KEYS       the streams
-- ARGV[1]    the group
-- ARGV[2]    the consumer
-- then for each stream: how many entries at most
-- Returns for each stream a list of ids and payloads in turn, oldest first. A missing stream has none and stays
-- missing, so that the dispatcher notices; a missing group is made anew, and sees every entry that is there. Or the
-- error's text if a stream's key is unusable.
local group, consumer = ARGV[1], ARGV[2]
local result = {}

local function read(key, count)
  return redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', key, '>')
end

local function take(key, count)
  local found = {}
  if redis.call('EXISTS', key) == 0 then
    return found
  end
  local reply = read(key, count)
  if reply and reply.err and string.match(reply.err, '^%-?NOGROUP') then
    redis.call('XGROUP', 'CREATE', key, group, '0')
    reply = read(key, count)
  end
  if reply and reply.err then
    return reply.err
  end
  for _, entry in ipairs(reply and reply[1][2] or {}) do
    found[#found + 1] = entry[1]
    found[#found + 1] = entry[2][2]
  end
  return found
end

for index, key in ipairs(KEYS) do
  result[index] = guarded(take, key, ARGV[2 + index])
end
return result
