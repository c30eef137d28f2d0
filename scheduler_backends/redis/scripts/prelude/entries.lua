-- An entry whose record was removed by hand may have the id of a newer job. Before a record is deleted because of an entry,
-- these functions find out whether it is the record of that job.
local SCANNED = 1000 -- ready entries of a level that are looked at

local function scores_of(index, ids)
    return call('EXISTS', index) == 1 and call('ZMSCORE', index, unpack(ids)) or {} -- often there is none
end

-- Those of the ids that are not leased and in none of the sorted sets that come before *source*.
local function nowhere_else(ids, source)
    if #ids == 0 then return ids end
    local elsewhere, mine = {call('HMGET', leased, unpack(ids))}, {}
    for _, index in ipairs({scheduled, waiting, dead, succeeded, cancelled}) do
        if index == source then break end
        elsewhere[#elsewhere + 1] = scores_of(index, ids)
    end
    for k, id in ipairs(ids) do
        local other = false
        for _, found in ipairs(elsewhere) do other = other or found[k] end
        if not other then mine[#mine + 1] = id end
    end
    return mine
end

local named, all_named = nil, true
local function is_ready(id)
    if not named then
        named = {}
        for level = 0, 3 do
            for _, entry in ipairs(call('LRANGE', lists[level], 0, SCANNED - 1)) do named[string.sub(entry, 7)] = true end
            all_named = all_named and call('LLEN', lists[level]) <= SCANNED
        end
    end
    return named[id]
end

-- Those of the ids in *source*, an index of finished jobs, that are such jobs; those that are other jobs; and those for
-- which it would take too long to find out.
local function meant(source, ids)
    local mine, others, unsure = {}, {}, {}
    local own, holders = scores_of(source, ids), call('HMGET', leased, unpack(ids))
    local due, again = scores_of(scheduled, ids), scores_of(waiting, ids)
    local elsewhere = {}
    for _, index in ipairs({succeeded, dead, cancelled}) do
        if index ~= source then elsewhere[#elsewhere + 1] = scores_of(index, ids) end
    end
    local records
    for k, id in ipairs(ids) do
        -- A hundred records at a time: the payloads come with them.
        if k % 100 == 1 then records = call('HMGET', jobs, unpack(ids, k, math.min(k + 99, #ids))) end
        local finished = tonumber(own[k])
        local other = holders[k] or due[k] or again[k]
        for _, scores in ipairs(elsewhere) do
            other = other or scores[k] and tonumber(scores[k]) > finished -- the newer job has finished as well
        end
        local record = not other and records[(k - 1) % 100 + 1]
        -- Created after it has finished: a newer job that is ready, or the clock was set back in between.
        if record and #record >= 8 and math.floor(struct.unpack('<i8', record) / 1000) >= finished then
            other = is_ready(id)
            if not other and not all_named then unsure[#unsure + 1] = id end
        end
        if other then
            others[#others + 1] = id
        elseif unsure[#unsure] ~= id then
            mine[#mine + 1] = id
        end
    end
    return mine, others, unsure
end

local function delete(ids)
    if #ids == 0 then return end
    call('HDEL', jobs, unpack(ids))
    call('HDEL', history, unpack(ids))
    call('HDEL', results, unpack(ids))
end
