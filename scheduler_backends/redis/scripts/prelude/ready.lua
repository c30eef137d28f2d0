-- Ready jobs: a list per level, each entry the millisecond in which it became ready (6 bytes), then the id.
local lists = {[0] = ready0, ready1, ready2, ready3}

-- Fails where a list is of another type, before anything is written.
local function check_lists()
    for level = 0, 3 do call('LLEN', lists[level]) end
end

local function stamp_of(ms)
    return struct.pack('>I6', math.max(ms, 0))
end

-- Puts ids at the back of a level. Returns whether that list was empty before.
local function push(level, ids, ms)
    local stamp, entries = stamp_of(ms), {}
    for k = 1, #ids do entries[k] = stamp .. ids[k] end
    return call('RPUSH', lists[level], unpack(entries)) == #entries
end

-- The same for ids by level. Returns whether any of the lists was empty before.
local function push_all(ready, ms)
    local woken = false
    for level, ids in pairs(ready) do woken = push(level, ids, ms) or woken end
    return woken
end
