-- Tells how full lease streams of one queue are, and how many leases executors could take from them.
-- KEYS       for each stream two: the stream, and the hash of the demand that workers told
-- Returns for each stream two numbers: its length, -1 if it is missing; and the demand, -1 if no worker told any
-- that is still fresh by this server's clock. Or the error's text if one of its keys is unusable.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local result = {}

local function demand(key)
  local sum = -1
  local told = redis.call('HVALS', key)
  for _, value in ipairs(told) do
    local credits, expiry = string.match(value, '^(%d+):(%d+)$')
    if credits and tonumber(expiry) > now then
      sum = math.max(sum, 0) + tonumber(credits)
    end
  end
  return sum
end

local function length(key)
  return redis.call('EXISTS', key) == 1 and redis.call('XLEN', key) or -1
end

local function depth(index)
  return { length(KEYS[index]), demand(KEYS[index + 1]) }
end

for index = 1, #KEYS, 2 do
  result[#result + 1] = guarded(depth, index)
end
return result
