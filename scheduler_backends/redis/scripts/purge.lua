#!lua flags=allow-oom
-- purge: deletes jobs in one state, except leased
-- KEYS     meta jobs scheduled waiting ready0 ready1 ready2 ready3 tombstones leased history dead succeeded cancelled results
-- ARGV     state, limit
-- uses     ready tombstones states entries
-- returns  number of entries removed, 0 | 1 there may be more
local state, left = ARGV[1], tonumber(ARGV[2])
local source = sorted[state]
local ids = {}
if source then
    ids = call('ZRANGE', source, 0, left - 1)
else
    for level = 0, 3 do
        local some, passed_by = first_live(level, left - #ids, true)
        for k = 1, #some do ids[#ids + 1] = some[k] end
        if passed_by > 0 then call('LTRIM', lists[level], passed_by, -1) end
        count_off()
        sweep(level)
    end
end
local more = (#ids == left or budget < 1) and 1 or 0
if #ids == 0 then return {0, more} end

local mine = {}
if state == 'scheduled' or state == 'retry_wait' or not source then
    -- Damage by hand can put a job in two indexes. It has the first of these states, or is leased if it has a lease.
    mine = nowhere_else(ids, source)
else
    local others, unsure
    mine, others, unsure = check_entries(source, ids)
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
