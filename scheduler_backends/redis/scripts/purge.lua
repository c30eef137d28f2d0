#!lua flags=allow-oom
-- purge: deletes jobs in one state, any but leased
-- KEYS     meta jobs scheduled waiting ready0 ready1 ready2 ready3 tombs leased history dead succeeded cancelled results
-- ARGV     state, limit
-- uses     ready tombs meant
-- returns  how many went, 1 = there may be more
local state, left = ARGV[1], tonumber(ARGV[2])
local sorted = {scheduled = scheduled, retry_wait = waiting, dead = dead, succeeded = succeeded, cancelled = cancelled}
local source = sorted[state]
local ids = {}
if source then
    ids = call('ZRANGE', source, 0, left - 1)
else
    for level = 0, 3 do
        while #ids < left and budget > 0 do
            local entry = call('LPOP', lists[level])
            if not entry then break end
            local id = string.sub(entry, 7)
            if is_dead(level, id) then budget = budget - 1 else ids[#ids + 1] = id end
        end
        sweep(level)
    end
end
local more = (#ids == left or budget < 1) and 1 or 0
if #ids == 0 then return {0, more} end

local mine = {}
if state == 'scheduled' or state == 'retry_wait' or not source then
    -- A job that is leased as well is leased, and one with an entry in two indexes is where prelude/view.lua sees it.
    local elsewhere = {call('HMGET', leased, unpack(ids))}
    for _, index in ipairs({scheduled, waiting, dead, succeeded, cancelled}) do
        if index == source then break end
        elsewhere[#elsewhere + 1] = scores_of(index, ids)
    end
    for k, id in ipairs(ids) do
        local other = false
        for _, found in ipairs(elsewhere) do other = other or found[k] end
        if not other then mine[#mine + 1] = id end
    end
else
    local others, unsure
    mine, others, unsure = meant(source, ids)
    if #unsure > 0 then
        ids = {}
        for _, some in ipairs({mine, others}) do
            for _, id in ipairs(some) do ids[#ids + 1] = id end
        end
    end
end
delete(mine)
if source and #ids > 0 then call('ZREM', source, unpack(ids)) end
return {#ids, more}
