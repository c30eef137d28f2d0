-- A lease call's jobs are a group, named by its token (16 bytes). holding: group -> job ids, NUL between them (no id holds
-- one); 'n' .. group -> how many of them are still held; 'w' .. group -> worker id.
local function members(names)
    local ids = {}
    for id in string.gmatch(names or '', '[^%z]+') do ids[#ids + 1] = id end
    return ids
end

local function forget(group)
    call('HDEL', holding, group, 'n' .. group, 'w' .. group)
    call('ZREM', expiry, group)
end

-- Takes note that so many of the group's jobs are not leased any more, which must have been noted; the last one ends it.
local function let_go(group, number)
    local left = redis.pcall('HINCRBY', holding, 'n' .. group, -number)
    if type(left) ~= 'number' then -- the count was damaged: count again
        local ids = members(call('HGET', holding, group))
        left = 0
        for _, holder in ipairs(ids[1] and call('HMGET', leased, unpack(ids)) or {}) do
            if holder == group then left = left + 1 end
        end
        call('HSET', holding, 'n' .. group, left)
    end
    if left < 1 then forget(group) end
end
