-- A job cancelled while ready leaves its entry in the list, dead: tombstones counts those by level and id. Dead entries of
-- an id are always before its live one. Dead entries at the head of a list are removed, so that "not empty" means "has a
-- job", but no more than the budget in one call of a script: later calls remove what is left.
-- Many are looked up, counted off and cut off at once; where nothing else is left, all of them are.
-- meta.tombstones is how many there are in all; if that is no number, they are counted again.
local budget = 2000 -- dead entries that this call may still remove
local STRIDE = 500 -- looked up at once
local graves = {} -- level:id -> how many dead entries are left, of those that were looked up
local gone, passed, others = {}, 0, {} -- of those passed: names that have none left, how many entries, names that have some

local function add_tombstones(number)
    if type(redis.pcall('HINCRBY', meta, 'tombstones', number)) ~= 'number' then
        call('HSET', meta, 'tombstones', call('HLEN', tombstones))
    end
end

local function has_tombstones(value)
    return value and value ~= '0'
end

-- Some entries of a level, from a place on, and their names in tombstones, which are looked up.
local function entries_of(level, from, count)
    local entries = call('LRANGE', lists[level], from, from + count - 1)
    local names, unknown, number, prefix, sub = {}, {}, 0, level .. ':', string.sub
    for k = 1, #entries do
        local name = prefix .. sub(entries[k], 7)
        names[k] = name
        if not graves[name] then
            number = number + 1
            unknown[number] = name
        end
    end
    for at = 1, number, STRIDE do
        local counts = call('HMGET', tombstones, unpack(unknown, at, math.min(at + STRIDE - 1, number)))
        for k = 1, #counts do
            local value = counts[k]
            local count = value and (value == '1' and 1 or tonumber(value) or 1) or 0
            -- A damaged count is at least one.
            graves[unknown[at + k - 1]] = value and (count < 1 or count > 1000000) and 1 or count
        end
    end
    return entries, names
end

-- Whether the entry with this name, as `entries_of` returns it, is a dead one. It is passed then, and `count_off` counts it off.
local function is_dead(name)
    local count = graves[name]
    if count == 0 then return false end
    graves[name] = count - 1
    if count == 1 then gone[#gone + 1] = name else others[name] = true end
    passed = passed + 1
    budget = budget - 1
    return true
end

-- The ids of the first live entries of a level, at most so many, and the number of entries up to the last of them. The
-- caller must cut those off, and then call `count_off`.
local function first_live(level, want, entombed)
    local ids, number, from, stride = {}, 0, 0, 100 -- counted, since Lua searches for the length of a table each time
    while number < want and budget > 0 do
        local asked = entombed and math.max(want - number, stride) or want - number
        local entries, names
        if entombed then
            entries, names = entries_of(level, from, asked)
        else
            entries = call('LRANGE', lists[level], from, from + asked - 1)
        end
        for k = 1, #entries do
            if number == want or budget < 1 then break end
            from = from + 1
            if not (entombed and is_dead(names[k])) then
                number = number + 1
                ids[number] = string.sub(entries[k], 7)
            end
        end
        if #entries < asked then break end
        stride = STRIDE
    end
    return ids, from
end

-- Removes the tombstones of the entries passed so far.
local function count_off()
    if passed == 0 then return end
    for at = 1, #gone, STRIDE do call('HDEL', tombstones, unpack(gone, at, math.min(at + STRIDE - 1, #gone))) end
    for name in pairs(others) do
        if graves[name] > 0 then call('HSET', tombstones, name, string.format('%.0f', graves[name])) end
    end
    add_tombstones(-passed)
    gone, passed, others = {}, 0, {}
end

-- Removes all entries where no live one is among them, by two counts that must agree, and returns whether it did.
local function clear_dead()
    local listed = 0
    for level = 0, 3 do
        local length = redis.pcall('LLEN', lists[level])
        if type(length) ~= 'number' then return false end -- of a wrong type: no error after what was written already
        listed = listed + length
    end
    if call('HLEN', tombstones) ~= listed or tonumber(call('HGET', meta, 'tombstones') or '') ~= listed then return false end
    call('UNLINK', tombstones, ready0, ready1, ready2, ready3)
    call('HSET', meta, 'tombstones', 0)
    return true
end

-- Returns whether the list does not begin with a dead entry any more.
local function sweep(level)
    local stride = 1 -- most often the first entry is a live one
    while true do
        local entries, names = entries_of(level, 0, stride)
        if not entries[1] or graves[names[1]] == 0 then return true end
        if stride == 1 and clear_dead() then return true end
        if budget < 1 then return false end
        local count = 0
        while count < #entries and budget > 0 and is_dead(names[count + 1]) do count = count + 1 end
        call('LTRIM', lists[level], count, -1)
        count_off()
        stride = math.max(math.min(stride * 10, STRIDE, budget), 1)
    end
end
