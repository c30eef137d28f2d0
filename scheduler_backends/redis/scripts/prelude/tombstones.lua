-- Cancelling a ready job leaves a dead entry in its list. The hash tombstones has the number of dead entries per level and id,
-- and meta.tombstones has their total; if that is not a number, it is calculated again. The dead entries of an id are
-- always before its live one.
-- Dead entries at the head of a list are removed, so that a list that is not empty has a ready job. One script call removes
-- at most *budget* of them, and later calls continue. They are looked up and removed in batches, or all at once if the lists
-- have no live entries.
local budget = 2000 -- dead entries that this call may still remove
local STRIDE = 500 -- entries looked up at once
local dead_left = {} -- level:id -> number of dead entries left, as far as looked up
-- Of the dead entries passed: names without further dead entries, the number passed, names with further dead entries.
local gone, passed, others = {}, 0, {}

local function add_tombstones(number)
    if type(redis.pcall('HINCRBY', meta, 'tombstones', number)) ~= 'number' then
        call('HSET', meta, 'tombstones', call('HLEN', tombstones))
    end
end

local function has_tombstones(value)
    return value and value ~= '0'
end

-- Returns entries of a level from an index on, and their names in tombstones. Looks up the names that are new.
local function entries_of(level, from, count)
    local entries = call('LRANGE', lists[level], from, from + count - 1)
    local names, unknown, number, prefix, sub = {}, {}, 0, level .. ':', string.sub
    for k = 1, #entries do
        local name = prefix .. sub(entries[k], 7)
        names[k] = name
        if not dead_left[name] then
            number = number + 1
            unknown[number] = name
        end
    end
    for at = 1, number, STRIDE do
        local counts = call('HMGET', tombstones, unpack(unknown, at, math.min(at + STRIDE - 1, number)))
        for k = 1, #counts do
            local value = counts[k]
            local count = value and (value == '1' and 1 or tonumber(value) or 1) or 0
            -- A damaged count is taken as 1.
            dead_left[unknown[at + k - 1]] = value and (count < 1 or count > 1000000) and 1 or count
        end
    end
    return entries, names
end

-- Returns whether the entry with this name, from `entries_of`, is dead. It is then noted for `count_off`.
local function is_dead(name)
    local count = dead_left[name]
    if count == 0 then return false end
    dead_left[name] = count - 1
    if count == 1 then gone[#gone + 1] = name else others[name] = true end
    passed = passed + 1
    budget = budget - 1
    return true
end

-- Returns the ids of the first live entries of a level, at most *want*, and the number of entries passed. The caller must
-- trim the list by that number, and then call `count_off`.
local function first_live(level, want, has_dead)
    local ids, number, from, stride = {}, 0, 0, 100 -- counted, since Lua searches for the length of a table each time
    while number < want and budget > 0 do
        local asked = has_dead and math.max(want - number, stride) or want - number
        local entries, names
        if has_dead then
            entries, names = entries_of(level, from, asked)
        else
            entries = call('LRANGE', lists[level], from, from + asked - 1)
        end
        for k = 1, #entries do
            if number == want or budget < 1 then break end
            from = from + 1
            if not (has_dead and is_dead(names[k])) then
                number = number + 1
                ids[number] = string.sub(entries[k], 7)
            end
        end
        if #entries < asked then break end
        stride = STRIDE
    end
    return ids, from
end

-- Removes the tombstones of the dead entries passed so far.
local function count_off()
    if passed == 0 then return end
    for at = 1, #gone, STRIDE do call('HDEL', tombstones, unpack(gone, at, math.min(at + STRIDE - 1, #gone))) end
    for name in pairs(others) do
        if dead_left[name] > 0 then call('HSET', tombstones, name, string.format('%.0f', dead_left[name])) end
    end
    add_tombstones(-passed)
    gone, passed, others = {}, 0, {}
end

-- Removes all entries if all are dead, and returns whether it did. Two independent counts must agree.
local function clear_dead()
    local listed = 0
    for level = 0, 3 do
        local length = redis.pcall('LLEN', lists[level])
        if type(length) ~= 'number' then return false end -- wrong type; an error now would leave earlier writes incomplete
        listed = listed + length
    end
    if call('HLEN', tombstones) ~= listed or tonumber(call('HGET', meta, 'tombstones') or '') ~= listed then return false end
    call('UNLINK', tombstones, ready0, ready1, ready2, ready3)
    call('HSET', meta, 'tombstones', 0)
    return true
end

-- Removes dead entries at the head of a level. Returns whether none is left there.
local function sweep(level)
    local stride = 1 -- usually the first entry is live
    while true do
        local entries, names = entries_of(level, 0, stride)
        if not entries[1] or dead_left[names[1]] == 0 then return true end
        if stride == 1 and clear_dead() then return true end
        if budget < 1 then return false end
        local count = 0
        while count < #entries and budget > 0 and is_dead(names[count + 1]) do count = count + 1 end
        call('LTRIM', lists[level], count, -1)
        count_off()
        stride = math.max(math.min(stride * 10, STRIDE, budget), 1)
    end
end
