-- A job cancelled while ready leaves its entry in the list, dead: tombs counts those by level and id. Dead entries of
-- an id always stand before its live one. Dead entries at the head of a list are removed, so that "not empty" means "has a
-- job", but at most 1,000 in one call of a script: what is left then is removed by the next calls that look.
-- meta.tombs is how many there are in all; where that is no number any more, they are counted anew.
local function add_tombs(number)
    if type(redis.pcall('HINCRBY', meta, 'tombs', number)) ~= 'number' then
        call('HSET', meta, 'tombs', call('HLEN', tombs))
    end
end

local function has_tombs(value)
    return value and value ~= '0'
end

-- Whether the entry about to be taken is a dead one; it is counted off then.
local function is_dead(level, id)
    local field = level .. ':' .. id
    local count = call('HGET', tombs, field)
    if not count then return false end
    count = tonumber(count) or 1
    if count > 1 and count < 1000000 then -- else it was damaged, and one is the least it can be
        call('HSET', tombs, field, string.format('%.0f', count - 1))
    else
        call('HDEL', tombs, field)
    end
    add_tombs(-1)
    return true
end

local budget = 1000 -- dead entries that this call may still remove

-- Answers whether the list does not begin with a dead entry any more.
local function sweep(level)
    while true do
        local entry = call('LINDEX', lists[level], 0)
        if not entry or call('HEXISTS', tombs, level .. ':' .. string.sub(entry, 7)) == 0 then return true end
        if budget < 1 then return false end
        budget = budget - 1
        is_dead(level, string.sub(entry, 7))
        call('LPOP', lists[level])
    end
end
