#!lua flags=no-writes
-- list: the ids from a place on in one state, and their views; who asks drops those that are in another state
-- KEYS     jobs scheduled waiting ready0 ready1 ready2 ready3 tombs leased expiry holding history dead succeeded cancelled results
-- ARGV     state, place (entries before; leased: 16384 * lease groups before + members before), number of ids wanted
-- uses     ready due groups view
-- returns  next place or -1 when this partition is at its end, views with their ids in turn
local state, place, want = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local ids, next_place = {}, -1
local sorted = {scheduled = scheduled, retry_wait = waiting, dead = dead, succeeded = succeeded, cancelled = cancelled}
if sorted[state] then
    ids = call('ZRANGE', sorted[state], place, place + want - 1)
    if #ids == want then next_place = place + want end
elseif state == 'ready' then
    local from = place
    for level = 0, 3 do
        local length = call('LLEN', lists[level])
        if from < length and #ids < want then
            local entries = call('LRANGE', lists[level], from, from + want - #ids - 1)
            for _, entry in ipairs(entries) do
                local id = string.sub(entry, 7)
                -- A dead entry is older than the record of the job that took the same id again.
                local created = call('HGET', tombs, level .. ':' .. id) and call('HGET', jobs, id)
                if created and #created >= 8 and #entry > 6 then
                    if struct.unpack('>I6', entry) < math.floor(struct.unpack('<i8', created) / 1000) then id = '' end
                end
                ids[#ids + 1] = id
            end
        end
        from = math.max(from - length, 0)
    end
    if #ids == want then next_place = place + want end
else -- leased: by lease group, of which none has more members than a place has room for
    local rank, from = math.floor(place / 16384), place % 16384
    while #ids < want do
        local part = call('ZRANGE', expiry, rank, rank)[1]
        if not part then break end
        local group, names = group_of(part), members(call('HGET', holding, part))
        local holders = names[1] and call('HMGET', leased, unpack(names)) or {}
        local last = math.min(#names, from + want - #ids)
        for k = from + 1, last do ids[#ids + 1] = holders[k] == group and names[k] or '' end
        if last < #names then from = last else rank, from = rank + 1, 0 end
    end
    if #ids == want then next_place = rank * 16384 + from end
end

local answer = {next_place}
for _, id in ipairs(ids) do
    local job = id ~= '' and view(id)
    if job then
        answer[#answer + 1] = id
        answer[#answer + 1] = job
    end
end
return answer
