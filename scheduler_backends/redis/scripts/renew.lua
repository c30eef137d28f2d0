#!lua flags=allow-oom
-- renew: leased -> leased. Jobs of the same lease call that are not named keep their expiry: possibly no worker knows that
-- it holds them, for example after the reply to a lease call was lost.
-- KEYS     leased expiry lease_members
-- ARGV     now, duration ms, then per group: group, number of ids, ids
-- uses     clock groups
-- returns  positions (from 0, over all ids) of the jobs that are not held, and an empty list
local expires = string.format('%.0f', math.floor(clock(ARGV[1]) / 1000) + ARGV[2])

-- Renews the named members of a part, and moves the others to a new part. Returns whether any member was named.
local function renew(group, part, named)
    local mine, others = {}, {}
    for _, id in ipairs(members(call('HGET', lease_members, part))) do
        if named[id] then
            mine[#mine + 1] = id
        elseif call('HGET', leased, id) == group then
            others[#others + 1] = id
        end
    end
    if #mine == 0 then return false end
    if #others > 0 then
        local highest = call('HINCRBY', lease_members, 'p' .. group, 1)
        -- pcall: if the count is damaged, reduce_held corrects it.
        if highest == 1 then redis.pcall('HINCRBY', lease_members, 'n' .. group, PARTED) end
        local left = part_of(group, highest)
        call('ZADD', expiry, call('ZSCORE', expiry, part) or expires, left)
        call('HSET', lease_members, part, table.concat(mine, '\0'), left, table.concat(others, '\0'))
    end
    call('ZADD', expiry, expires, part)
    return true
end

local refused, place, at = {}, 0, 3
while at < #ARGV do
    local group, count = ARGV[at], tonumber(ARGV[at + 1])
    local named, number = {}, 0
    local holders = call('HMGET', leased, unpack(ARGV, at + 2, at + 1 + count))
    for k = 1, count do
        local id = ARGV[at + 1 + k]
        if holders[k] ~= group then
            refused[#refused + 1] = place + k - 1
        elseif not named[id] then
            named[id], number = true, number + 1
        end
    end
    if number > 0 then
        local known = call('HMGET', lease_members, 'n' .. group, 'p' .. group)
        local renewed = false
        if tonumber(known[1] or '') ~= number or known[2] then
            for _, part in ipairs(parts_of(group)) do renewed = renew(group, part, named) or renewed end
        end
        if not renewed then call('ZADD', expiry, expires, group) end
    end
    place = place + count
    at = at + 2 + count
end
return {refused, {}}
