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

-- Takes note that so many of the group's jobs are not leased any more; the last one ends it.
local function let_go(group, number)
    if call('HINCRBY', holding, 'n' .. group, -number) < 1 then forget(group) end
end
