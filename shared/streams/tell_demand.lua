-- Writes how many leases one worker's executors could take from lease streams of one queue.
-- KEYS       for each stream the hash of the demand
-- ARGV[1]    the worker's replica
-- ARGV[2]    for how many milliseconds this is fresh, by this server's clock
-- then for each stream: the number
-- Returns for each stream 1, or the error's text if its key is unusable. What other workers told and is no longer
-- fresh is removed.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local fresh = tonumber(ARGV[2])

local result = {}

local function tell(key, credits)
  local told = redis.call('HGETALL', key)
  for field = 1, #told, 2 do
    local expiry = string.match(told[field + 1], ':(%d+)$')
    if not expiry or tonumber(expiry) <= now then
      redis.call('HDEL', key, told[field])
    end
  end
  redis.call('HSET', key, ARGV[1], string.format('%d:%.0f', credits, now + fresh))
  redis.call('PEXPIRE', key, fresh)
  return 1
end

for index, key in ipairs(KEYS) do
  result[index] = guarded(tell, key, ARGV[2 + index])
end
return result
