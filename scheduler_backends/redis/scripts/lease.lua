#!lua flags=allow-oom
-- lease: ready -> leased
-- KEYS     meta jobs ready0 ready1 ready2 ready3 tombstones leased expiry lease_members history
-- ARGV     now, number wanted, duration ms, group, worker, 1 = the caller already has the jobs held by the group: only add jobs
-- uses     clock ready tombstones groups
-- returns  0 | 1 more jobs are ready, expiry ms, number held before, ids (those held before first), their records,
--          ids and histories, alternating; ids of entries without a ready job, which were dropped
local want, group = tonumber(ARGV[2]), ARGV[4]
-- Each key is read before the first write, or written first, so a key of a wrong type fails before any change.
local head = call('HMGET', meta, 'pause', 'tombstones')
local has_dead = has_tombstones(head[2])
local known_of = call('HMGET', lease_members, 'n' .. group, group)
local held = known_of[1] or known_of[2]
local expires = held and call('ZSCORE', expiry, group)

local ids, records, lost, before, names = {}, {}, {}, 0, {}
local parts = held and parts_of(group) or {}
for _, part in ipairs(parts) do -- a repeat: jobs still held come first
    local known = members(call('HGET', lease_members, part))
    local groups = values_of(leased, known)
    local stored = ARGV[6] ~= '1' and values_of(jobs, known) or {}
    for k, id in ipairs(known) do
        if groups[k] == group then
            if part == group then names[#names + 1] = id end
            if ARGV[6] ~= '1' then want = want - 1 end
            if stored[k] then
                before = before + 1
                ids[before], records[before] = id, stored[k]
            end
        end
    end
end
if ARGV[6] ~= '1' and (#parts > 1 or #parts == 1 and parts[1] ~= group) then -- a repeat gives all parts one expiry again
    expires = string.format('%.0f', math.floor(clock(ARGV[1]) / 1000) + ARGV[3])
    for _, part in ipairs(parts) do call('ZADD', expiry, expires, part) end
end
local paused = head[1] and string.sub(head[1], -1) == '1'
if paused then want = 0 end

local taken, number, cut = {}, 0, {} -- counted, since Lua searches for the length of a table each time
for level = 0, 3 do
    if want <= number or budget < 1 then break end
    local some, passed_by = first_live(level, want - number, has_dead)
    for k = 1, #some do taken[number + k] = some[k] end
    number = number + #some
    if passed_by > 0 then cut[level] = passed_by end
end

if number > 0 then
    local stored = call('HMGET', jobs, unpack(taken))
    local holders = call('HMGET', leased, unpack(taken))
    local writes, count = {}, 0
    for k = 1, number do
        local id = taken[k]
        if stored[k] and not holders[k] then
            count = count + 1
            taken[count], stored[count] = id, stored[k]
            writes[count * 2 - 1], writes[count * 2] = id, group
        else -- the job has no record, or is leased already and stays so
            lost[#lost + 1] = id
        end
    end
    if count > 0 then
        expires = string.format('%.0f', math.floor(clock(ARGV[1]) / 1000) + ARGV[3])
        call('ZADD', expiry, expires, group)
        local added = call('HSET', leased, unpack(writes))
        if added < count then -- an id was taken twice: return it once
            local seen, kept = {}, 0
            for k = 1, count do
                if not seen[taken[k]] then
                    seen[taken[k]] = true
                    kept = kept + 1
                    taken[kept], stored[kept] = taken[k], stored[k]
                end
            end
            count = kept
        end
        for k = number, count + 1, -1 do taken[k], stored[k] = nil, nil end
        if before > 0 then
            for k = 1, count do ids[before + k], records[before + k] = taken[k], stored[k] end
        else
            ids, records = taken, stored
        end
        if held then
            added = added + (tonumber(known_of[1] or '') or #names)
            for k = 1, count do names[#names + 1] = taken[k] end
        else
            names = taken
        end
        call('HSET', lease_members, group, table.concat(names, '\0'), 'n' .. group, added, 'w' .. group, ARGV[5])
    end
end
for level, from in pairs(cut) do call('LTRIM', lists[level], from, -1) end
count_off()
for level = 0, 3 do -- if nothing was taken, all levels: an empty result must mean that no job is ready
    if has_dead and (cut[level] or number == 0 and not paused) then sweep(level) end
end

local more = 0
if not paused and (number >= want or budget < 1) then more = math.min(call('EXISTS', ready0, ready1, ready2, ready3), 1) end
local histories = {}
if #ids > 0 and call('EXISTS', history) == 1 then
    local found = values_of(history, ids)
    for k = 1, #ids do
        if found[k] then histories[#histories + 1], histories[#histories + 2] = ids[k], found[k] end
    end
end
return {more, expires or '0', before, ids, records, histories, lost}
