-- Ready jobs: one list per level. An entry is the millisecond in which the job became ready (6 bytes), then its id.
local lists = {[0] = ready0, ready1, ready2, ready3}

-- Raises an error if a list has the wrong type, before anything is written.
local function check_lists()
    for level = 0, 3 do call('LLEN', lists[level]) end
end

local function stamp_of(ms)
    return struct.pack('>I6', math.max(ms, 0))
end

-- Appends ids to the list of a level. Returns whether the list was empty before.
local function push(level, ids, ms)
    local stamp, entries = stamp_of(ms), {}
    for k = 1, #ids do entries[k] = stamp .. ids[k] end
    return call('RPUSH', lists[level], unpack(entries)) == #entries
end

-- Appends ids, grouped by level. Returns whether any of the lists was empty before.
local function push_all(ready, ms)
    local woken = false
    for level, ids in pairs(ready) do woken = push(level, ids, ms) or woken end
    return woken
end
