-- Copies events into one stream, which is trimmed by size and by age.
-- KEYS[1]    the stream
-- ARGV[1]    how many events are kept, about
-- ARGV[2]    for how many milliseconds, about, by this server's clock
-- then for each event four: event type, dedupe key, creation time, payload
-- Returns nothing.
for place = 3, #ARGV, 4 do
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'event_type', ARGV[place], 'dedupe_key', ARGV[place + 1],
    'create_time', ARGV[place + 2], 'payload', ARGV[place + 3])
end
local clock = redis.call('TIME')
local oldest = clock[1] * 1000 - tonumber(ARGV[2])
if oldest > 0 then
  redis.call('XTRIM', KEYS[1], 'MINID', '~', string.format('%.0f', oldest))
end
return false
