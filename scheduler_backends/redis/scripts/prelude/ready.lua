-- Ready jobs: a list per level, each entry the millisecond in which it became ready (6 bytes), then the id.
local lists = {[0] = ready0, ready1, ready2, ready3}

local function stamp_of(ms)
    return struct.pack('>I6', math.max(ms, 0))
end

-- Puts ids at the back of a level; answers whether that list was empty before.
local function push(level, ids, ms)
    local stamp, entries = stamp_of(ms), {}
    for k = 1, #ids do entries[k] = stamp .. ids[k] end
    return call('RPUSH', lists[level], unpack(entries)) == #entries
end
