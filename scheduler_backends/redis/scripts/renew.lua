#!lua flags=allow-oom
-- renew: leased -> leased, a whole group at a time
-- KEYS     leased expiry
-- ARGV     now, duration ms, then per group: group, number of ids, ids
-- uses     clock
-- returns  numbers (from 0, over all ids) of those that are not held
local expires = string.format('%.0f', math.floor(clock(ARGV[1]) / 1000) + ARGV[2])
local refused, place, at = {}, 0, 3
while at < #ARGV do
    local group, count = ARGV[at], tonumber(ARGV[at + 1])
    local holders = call('HMGET', leased, unpack(ARGV, at + 2, at + 1 + count))
    local held = false
    for k = 1, count do
        if holders[k] == group then held = true else refused[#refused + 1] = place + k - 1 end
    end
    if held then call('ZADD', expiry, expires, group) end
    place = place + count
    at = at + 2 + count
end
return refused
