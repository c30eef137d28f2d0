-- A lease call's jobs are a group, named by its token (16 bytes). lease_members: group -> job ids, NUL between them (no id holds
-- one); 'n' .. group -> how many of them are still held; 'w' .. group -> worker id. A renewal that names only some of them
-- makes a part of the others, with the expiry that they had: lease_members and expiry then know group .. number (2 bytes) as well,
-- and lease_members 'p' .. group the highest number; PARTED is added to 'n' .. group, so that no parts are looked for in groups without
-- any. A job's holder in leased is always the group. 's' .. group: where a search for the jobs of a damaged group goes on.
-- For a later release: 'f' .. group, the fence of the lease call, and 'b' .. group, when it began (us).
local PARTED = 1000000000

local function members(names)
    local ids = {}
    for id in string.gmatch(names or '', '[^%z]+') do ids[#ids + 1] = id end
    return ids
end

-- The values of these fields, a thousand at a time: a damaged list of members may be longer than unpack can take.
local function values_of(hash, ids)
    if #ids == 0 then return {} end
    local values = call('HMGET', hash, unpack(ids, 1, math.min(#ids, 1000)))
    for from = 1001, #ids, 1000 do
        local some = call('HMGET', hash, unpack(ids, from, math.min(from + 999, #ids)))
        for k = 1, #some do values[from + k - 1] = some[k] end
    end
    return values
end

local function group_of(part)
    return #part == 18 and string.sub(part, 1, 16) or part
end

local function part_of(group, number)
    return number == 0 and group or group .. struct.pack('>I2', number)
end

local function highest_part(group)
    return math.min(tonumber(call('HGET', lease_members, 'p' .. group) or '0') or 0, 10000)
end

-- The group itself first, unless it was recovered already, then its parts.
local function parts_of(group)
    local parts = {}
    for number = 0, highest_part(group) do
        local part = part_of(group, number)
        if call('HEXISTS', lease_members, part) == 1 then parts[#parts + 1] = part end
    end
    return parts
end

local function forget(group, is_parted)
    for number = 1, is_parted and highest_part(group) or 0 do
        call('HDEL', lease_members, part_of(group, number))
        call('ZREM', expiry, part_of(group, number))
    end
    call('HDEL', lease_members, group, 'n' .. group, 'w' .. group, 'p' .. group, 's' .. group, 'f' .. group, 'b' .. group)
    call('ZREM', expiry, group)
end

-- Counts off so many of the group's jobs, which were removed from leased before. The last one ends the group.
local function let_go(group, number)
    local left = redis.pcall('HINCRBY', lease_members, 'n' .. group, -number)
    local is_parted = type(left) == 'number' and left > PARTED / 2
    if type(left) ~= 'number' then -- the count was damaged: count again
        left, is_parted = 0, highest_part(group) > 0
        for _, part in ipairs(parts_of(group)) do
            for _, id in ipairs(members(call('HGET', lease_members, part))) do
                if call('HGET', leased, id) == group then left = left + 1 end
            end
        end
        call('HSET', lease_members, 'n' .. group, left + (is_parted and PARTED or 0))
    elseif is_parted then
        left = left - PARTED
    end
    if left < 1 then forget(group, is_parted) end
end
