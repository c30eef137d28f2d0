#!lua flags=no-writes
-- list: the jobs after a position in one state, as ids and views; the caller skips views with another state
-- KEYS     jobs scheduled waiting ready0 ready1 ready2 ready3 tombstones leased expiry lease_members history dead succeeded cancelled results
-- ARGV     state, number of ids wanted, then the position, 3 words: level, entry, occurrence of it if ready | score, lease
--          group, id if leased | else score, member, ''. At the beginning all are ''
-- uses     ready due groups states view
-- returns  0 | 1 more may follow, the position after the last of these (3 words), ids and their views, alternating
local state, want = ARGV[1], tonumber(ARGV[2])
local mark, member, last = ARGV[3], ARGV[4], ARGV[5]
local MOST = 1000 -- entries or groups examined in one call
local ids, more = {}, 0

-- Compares byte by byte, as the server sorts members. Lua's own comparison depends on the locale.
local function is_before(one, other)
    for k = 1, math.min(#one, #other) do
        local a, b = string.byte(one, k), string.byte(other, k)
        if a ~= b then return a < b end
    end
    return #one < #other
end

-- Returns the rank of the first member after the position. The member at the position may have been removed.
local function rank_behind(index)
    local low, high = call('ZCOUNT', index, '-inf', '(' .. mark), call('ZCOUNT', index, '-inf', mark)
    while low < high do
        local middle = math.floor((low + high) / 2)
        if is_before(member, call('ZRANGE', index, middle, middle)[1]) then high = middle else low = middle + 1 end
    end
    return low
end

-- Returns whether an entry is that of a cancelled job whose id a newer job uses: it is then older than the record.
local function is_dead_entry(level, entry, id)
    local created = call('HGET', tombstones, level .. ':' .. id) and call('HGET', jobs, id)
    if not created then return false end
    return #created >= 8 and #entry > 6 and struct.unpack('>I6', entry) < math.floor(struct.unpack('<i8', created) / 1000)
end

if sorted[state] then
    local from = mark == '' and 0 or rank_behind(sorted[state])
    local found = call('ZRANGE', sorted[state], from, from + want - 1, 'WITHSCORES')
    for k = 1, #found, 2 do ids[#ids + 1], member, mark = found[k], found[k], found[k + 1] end
    more = #ids == want and 1 or 0
elseif state == 'ready' then
    -- Entries leave a list at its head: if the entry at the position is gone, all before it are gone too.
    local level, from, looked = tonumber(mark) or 0, 0, 0
    if mark ~= '' then
        local places = call('LPOS', lists[level], member, 'COUNT', tonumber(last))
        from = #places > 0 and places[#places] + 1 or 0
    end
    local step = call('EXISTS', tombstones) == 1 and MOST or want
    while level <= 3 and #ids < want and looked < MOST do
        local entries = call('LRANGE', lists[level], from, from + step - 1)
        for _, entry in ipairs(entries) do
            if #ids == want or looked == MOST then break end
            from, looked, mark, member = from + 1, looked + 1, tostring(level), entry
            local id = string.sub(entry, 7)
            if step == want or not is_dead_entry(level, entry, id) then ids[#ids + 1] = id end
        end
        if #entries == 0 then level, from = level + 1, 0 end
    end
    if looked > 0 then -- an entry may occur twice: a dead one and its successor in the same millisecond
        local passed = level > tonumber(mark) and 0 or from -- 0: all of that list
        last = tostring(#call('LPOS', lists[tonumber(mark)], member, 'COUNT', 0, 'MAXLEN', passed))
    end
    more = level <= 3 and 1 or 0
else -- leased: by lease group
    local rank, from, looked = 0, 0, 0
    if mark ~= '' then
        rank = rank_behind(expiry)
        -- A group that was renewed meanwhile is listed again as a whole.
        if tonumber(call('ZSCORE', expiry, member) or '') == tonumber(mark) then rank = rank - 1 end
    end
    while #ids < want and looked < MOST do
        local found = call('ZRANGE', expiry, rank, rank, 'WITHSCORES')
        if not found[1] then break end
        local names = members(call('HGET', lease_members, found[1]))
        local holders = values_of(leased, names)
        local passed = 0
        for k, id in ipairs(found[1] == member and found[2] == mark and names or {}) do
            if id == last then passed = k end
        end
        for k, id in ipairs(names) do
            if k > passed and holders[k] == group_of(found[1]) and #ids < want then
                ids[#ids + 1] = id
                mark, member, last = found[2], found[1], id
            end
        end
        rank, looked = rank + 1, looked + 1
        if #ids < want then mark, member, last = found[2], found[1], names[#names] or '' end
    end
    more = (#ids == want or looked == MOST) and 1 or 0
end

local answer = {more, mark, member, last}
for _, id in ipairs(ids) do
    local job = view(id)
    if job then
        answer[#answer + 1] = id
        answer[#answer + 1] = job
    end
end
return answer
