-- The jobs of a lease call are a group, named by the token of the call (16 bytes). A renewal that names only some of its jobs
-- moves the others to a new part of the group, which keeps their expiry. A part is named group .. number (2 bytes); part 0 is
-- named like the group. In leased, the holder of a job is always the group. Fields of lease_members:
--     part           job ids, separated by NUL, which no id contains
--     'n' .. group   number of jobs still held, plus PARTED if the group has further parts, so that others need no search
--     'w' .. group   worker id
--     'p' .. group   highest number of a part
--     's' .. group   cursor of a search for the jobs of a damaged group
--     'f' .. group   reserved for a later release: the fence of the lease call
--     'b' .. group   reserved for a later release: when the lease call began, us
local PARTED = 1000000000

local function members(names)
    local ids = {}
    for id in string.gmatch(names or '', '[^%z]+') do ids[#ids + 1] = id end
    return ids
end

-- Returns the values of these fields, read 1,000 at a time: unpack fails for a very long list, as damage can make one.
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

-- Returns the parts of a group that still exist, in the order of their numbers.
local function parts_of(group)
    local parts = {}
    for number = 0, highest_part(group) do
        local part = part_of(group, number)
        if call('HEXISTS', lease_members, part) == 1 then parts[#parts + 1] = part end
    end
    return parts
end

local function delete_group(group, is_parted)
    for number = 1, is_parted and highest_part(group) or 0 do
        call('HDEL', lease_members, part_of(group, number))
        call('ZREM', expiry, part_of(group, number))
    end
    call('HDEL', lease_members, group, 'n' .. group, 'w' .. group, 'p' .. group, 's' .. group, 'f' .. group, 'b' .. group)
    call('ZREM', expiry, group)
end

-- Reduces the number of jobs that a group holds, after they were removed from leased. At 0, the group is deleted.
local function reduce_held(group, number)
    local left = redis.pcall('HINCRBY', lease_members, 'n' .. group, -number)
    local is_parted = type(left) == 'number' and left > PARTED / 2
    if type(left) ~= 'number' then -- the number was damaged: count the jobs
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
    if left < 1 then delete_group(group, is_parted) end
end
