#!lua flags=allow-oom
-- lease: ready -> leased
-- KEYS     meta jobs ready0 ready1 ready2 ready3 tombs leased expiry holding history aside
-- ARGV     now, want, duration ms, group, worker, 1 = the caller knows what is held already: only add to it
-- uses     clock ready tombs groups aside
-- returns  0 | 1 more is ready, expiry ms, number held before, ids and records in turn (those held before come first),
--          ids and histories in turn, ids and reasons set aside in turn
local want, group = tonumber(ARGV[2]), ARGV[4]
-- Each key is read before the first write, or written first: one of a wrong type ends the script before it did anything.
local head = call('HMGET', meta, 'pause', 'tombs')
local entombed = head[2] and tonumber(head[2]) > 0
local held = call('HGET', holding, group)
local expires = held and call('ZSCORE', expiry, group)

local ids, answer, lost, before, names = {}, {}, {}, 0, {}
if held then -- a repeat: what is still held comes first
    local known = members(held)
    local groups = call('HMGET', leased, unpack(known))
    local records = ARGV[6] ~= '1' and call('HMGET', jobs, unpack(known)) or {}
    for k, id in ipairs(known) do
        if groups[k] == group then
            names[#names + 1] = id
            if ARGV[6] ~= '1' then want = want - 1 end
            if records[k] then
                before = before + 1
                ids[before], answer[before * 2 - 1], answer[before * 2] = id, id, records[k]
            end
        end
    end
end
local paused = head[1] and string.sub(head[1], -1) == '1'
if paused then want = 0 end

local taken, number, cut = {}, 0, {} -- counted, since Lua searches for the length of a table each time
for level = 0, 3 do
    local from = 0
    while want > number do
        local entries = call('LRANGE', lists[level], from, from + want - number - 1)
        if not entries[1] then break end
        from = from + #entries
        for k = 1, #entries do
            local id = string.sub(entries[k], 7)
            if not (entombed and is_dead(level, id)) then
                number = number + 1
                taken[number] = id
            end
        end
    end
    if from > 0 then cut[level] = from end
    if want <= number then break end
end

if number > 0 then
    local records = call('HMGET', jobs, unpack(taken))
    local holders = call('HMGET', leased, unpack(taken))
    local writes, count, seen = {}, before, nil
    for k = 1, number do
        local id = taken[k]
        if not records[k] then
            set_aside(id, 'was ready without a record')
            lost[#lost + 1], lost[#lost + 2] = id, 'was ready without a record'
        elseif holders[k] then
            lost[#lost + 1], lost[#lost + 2] = id, 'was ready while it was leased; the lease stands'
        else
            count = count + 1
            local place = (count - before) * 2
            ids[count], answer[count * 2 - 1], answer[count * 2] = id, id, records[k]
            writes[place - 1], writes[place] = id, group
        end
    end
    if count > before then
        expires = string.format('%.0f', math.floor(clock(ARGV[1]) / 1000) + ARGV[3])
        call('ZADD', expiry, expires, group)
        local added = call('HSET', leased, unpack(writes))
        if added < count - before then -- an id stood twice among those taken: answer it once
            seen = {}
            local kept = before
            for k = before + 1, count do
                if not seen[ids[k]] then
                    seen[ids[k]] = true
                    kept = kept + 1
                    ids[kept], answer[kept * 2 - 1], answer[kept * 2] = ids[k], answer[k * 2 - 1], answer[k * 2]
                end
            end
            for k = count, kept + 1, -1 do ids[k], answer[k * 2 - 1], answer[k * 2] = nil, nil, nil end
        end
        if held then added = added + (call('HGET', holding, 'n' .. group) or 0) end
        for k = before + 1, #ids do names[#names + 1] = ids[k] end
        call('HSET', holding, group, table.concat(names, '\0'), 'n' .. group, added, 'w' .. group, ARGV[5])
    end
end
for level, from in pairs(cut) do
    call('LTRIM', lists[level], from, -1)
    if entombed then sweep(level) end
end

local more = 0
if not paused and number >= want then more = math.min(call('EXISTS', ready0, ready1, ready2, ready3), 1) end
local histories = {}
if #ids > 0 and call('EXISTS', history) == 1 then
    local found = call('HMGET', history, unpack(ids))
    for k = 1, #ids do
        if found[k] then histories[#histories + 1], histories[#histories + 2] = ids[k], found[k] end
    end
end
return {more, expires or '0', before, answer, histories, lost}
