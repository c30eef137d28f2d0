-- Checks of index entries. If a record was removed by hand, its entry remains, and a newer job may use the same id. So before
-- a record is deleted because of an entry, these functions check that it is not the record of a newer job.
local SCANNED = 1000 -- maximum number of ready entries per level that are examined

local function scores_of(index, ids)
    return call('EXISTS', index) == 1 and call('ZMSCORE', index, unpack(ids)) or {} -- often it is empty
end

-- Returns the ids that are not leased and are in none of the sorted sets before *source* in the list below.
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

-- Splits ids of *source*, an index of finished jobs, into three lists: ids whose record is that of the finished job, ids whose
-- record is that of a newer job, and ids for which the check would take too long.
local function check_entries(source, ids)
    local mine, others, unsure = {}, {}, {}
    local own, holders = scores_of(source, ids), call('HMGET', leased, unpack(ids))
    local due, again = scores_of(scheduled, ids), scores_of(waiting, ids)
    local elsewhere = {}
    for _, index in ipairs({succeeded, dead, cancelled}) do
        if index ~= source then elsewhere[#elsewhere + 1] = scores_of(index, ids) end
    end
    local records
    for k, id in ipairs(ids) do
        -- Only a hundred records at a time, since they include payloads.
        if k % 100 == 1 then records = call('HMGET', jobs, unpack(ids, k, math.min(k + 99, #ids))) end
        local finished = tonumber(own[k])
        local other = holders[k] or due[k] or again[k]
        for _, scores in ipairs(elsewhere) do
            other = other or scores[k] and tonumber(scores[k]) > finished -- a newer job that has finished as well
        end
        local record = not other and records[(k - 1) % 100 + 1]
        -- Created after the finish: either a newer job that is ready, or the clock was set back in between.
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
