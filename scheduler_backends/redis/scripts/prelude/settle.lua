-- Shared by the scripts that end leases job by job.

-- Returns the ids and lease groups in ARGV. They follow two other words. Each job has *step* words: id, group, others.
local function jobs_in_arguments(step)
    local ids, groups, number = {}, {}, 0 -- counted, since Lua searches for the length of a table each time
    for at = 3, #ARGV, step do
        number = number + 1
        ids[number], groups[number] = ARGV[at], ARGV[at + 1]
    end
    return ids, groups
end

-- Calls settle(k, id, record) for each job k that its group holds. Writes nothing itself. Returns the positions (from 0) of the
-- refused jobs, the ids of those refused because their record is gone, the ids whose leases end, and their number per group.
local function settle_held(ids, groups, settle)
    local refused, lost, gone, freed = {}, {}, {}, {}
    local holders = call('HMGET', leased, unpack(ids))
    local records = call('HMGET', jobs, unpack(ids))
    for k, id in ipairs(ids) do
        local group = groups[k]
        if holders[k] ~= group then
            refused[#refused + 1] = k - 1
        else
            gone[#gone + 1] = id
            freed[group] = (freed[group] or 0) + 1
            if records[k] then
                settle(k, id, records[k])
            else
                refused[#refused + 1] = k - 1
                lost[#lost + 1] = id
            end
        end
    end
    return refused, lost, gone, freed
end

-- Moves jobs to dead if dead jobs are kept, else deletes them.
local function end_as_dead(ids, kept, now_ms)
    if #ids == 0 then return end
    if not kept then
        call('HDEL', jobs, unpack(ids))
        call('HDEL', history, unpack(ids))
        return
    end
    local scores = {}
    for k = 1, #ids do scores[k * 2 - 1], scores[k * 2] = now_ms, ids[k] end
    call('ZADD', dead, unpack(scores))
end

local function end_leases(gone, freed)
    if #gone > 0 then call('HDEL', leased, unpack(gone)) end
    for group, number in pairs(freed) do reduce_held(group, number) end
end
