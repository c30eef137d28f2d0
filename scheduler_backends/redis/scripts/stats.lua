#!lua flags=no-writes
-- stats: number of jobs in each state, and the age of the oldest ready job
-- KEYS     meta scheduled waiting ready0 ready1 ready2 ready3 tombstones leased dead succeeded cancelled
-- ARGV     now
-- uses     clock ready
-- returns  scheduled, ready, leased, retry_wait, succeeded, dead, cancelled, us that the oldest ready job has waited or -1
local now = clock(ARGV[1])
local waits, number, live, hidden = -1, 0, 0, nil

-- Returns the first live entry of a level, or nil and the last dead one, if the first 1,000 entries are all dead.
local function first_live(level)
    if call('EXISTS', tombstones) == 0 then return call('LINDEX', lists[level], 0) end
    local seen, last = {}, nil
    for from = 0, 900, 100 do
        for _, entry in ipairs(call('LRANGE', lists[level], from, from + 99)) do
            local field = level .. ':' .. string.sub(entry, 7)
            seen[field] = (seen[field] or 0) + 1
            if seen[field] > (tonumber(call('HGET', tombstones, field) or '0') or 0) then return entry end
            last = entry
        end
    end
    return nil, last
end

local function wait_of(entry)
    return #entry > 6 and math.max(now - struct.unpack('>I6', entry) * 1000, 0) or 0
end

for level = 0, 3 do
    number = number + call('LLEN', lists[level])
    local head, last = first_live(level)
    if head then
        live, waits = 1, math.max(waits, wait_of(head))
    elseif last then
        hidden = math.max(hidden or 0, wait_of(last))
    end
end
if number > 0 then number = math.max(number - (tonumber(call('HGET', meta, 'tombstones') or '0') or 0), live) end
if number > 0 and waits < 0 then waits = hidden or 0 end -- the oldest ready job is younger than these dead entries
return {
    call('ZCARD', scheduled), number, math.max(call('HLEN', leased) - 1, 0), call('ZCARD', waiting),
    call('ZCARD', succeeded), call('ZCARD', dead), call('ZCARD', cancelled), waits,
}
