#!lua flags=allow-oom
-- recover_expired: leased -> ready at the back of the list, or -> dead if the attempts are used up. Recovers the jobs of a
-- lease group together, at most 1,000 at a time
-- KEYS     meta jobs ready0 ready1 ready2 ready3 leased expiry lease_members history dead
-- ARGV     now, channel, limit, error text, 1 dead jobs are kept | 0 deleted at once, tags of the supported options
-- uses     clock record ready due wake groups settle history
-- returns  number moved to ready, number moved to dead, us until the next expiry or -1, ids whose record is gone
local now = clock(ARGV[1])
local now_ms = math.floor(now / 1000)
local left, text, kept = tonumber(ARGV[3]), ARGV[4], ARGV[5] == '1'
local count_ready, count_dead, lost, woken = 0, 0, {}, false
check_lists()

local function recover_jobs(group, ids)
    local groups, pasts = {}, call('HMGET', history, unpack(ids))
    for k = 1, #ids do groups[k] = group end
    local ready, died, written = {}, {}, {}
    local _, missing, gone, freed = settle_held(ids, groups, function(k, id, record)
        local past, attempts
        if not is_later(record, ARGV[6]) then past, attempts = lease_ended(pasts[k], 1, 1, text, now) end
        if past then written[#written + 1], written[#written + 2] = id, past end
        -- Without attempts, the history is damaged or the job needs a later release: the next lease call handles it.
        if not attempts or attempts <= max_retries_of(record) then
            add_ready(ready, id, record)
            count_ready = count_ready + 1
        else
            died[#died + 1] = id
        end
    end)
    for _, id in ipairs(missing) do lost[#lost + 1] = id end
    if #written > 0 then call('HSET', history, unpack(written)) end
    end_as_dead(died, kept, whole(now_ms))
    woken = push_all(ready, now_ms) or woken
    count_dead = count_dead + #died
    end_leases(gone, freed)
    left = left - #gone
    return #gone
end

local function recover(part)
    local group = group_of(part)
    local value = call('HGET', lease_members, part)
    local ids, rest, place = {}, {}, '0'
    if value then
        for k, id in ipairs(members(value)) do
            if k > 1000 then rest[#rest + 1] = id else ids[k] = id end
        end
    elseif part == group then -- only after damage by hand: search for the members, some in each call
        local found = call('HSCAN', leased, call('HGET', lease_members, 's' .. group) or '0', 'COUNT', 1000)
        place = found[1]
        for k = 1, #found[2], 2 do
            if found[2][k + 1] == group then ids[#ids + 1] = found[2][k] end
        end
    end
    if #ids > 0 and recover_jobs(group, ids) == 0 and value then reduce_held(group, 0) end
    if place ~= '0' then -- the next call continues there
        call('ZADD', expiry, whole(now_ms), group)
        call('HSET', lease_members, 's' .. group, place)
        left = 0
    elseif #rest > 0 then
        call('ZADD', expiry, whole(now_ms), part)
        call('HSET', lease_members, part, table.concat(rest, '\0'))
    else
        call('HDEL', lease_members, part)
        call('ZREM', expiry, part)
        if #parts_of(group) == 0 then delete_group(group, true) end
    end
end

for _ = 1, 1000 do
    if left < 1 then break end
    local part = call('ZRANGEBYSCORE', expiry, '-inf', whole(now_ms), 'LIMIT', 0, 1)[1]
    if not part then break end
    recover(part)
end
if woken then wake(ARGV[2], true) end
local head = call('ZRANGE', expiry, 0, 0, 'WITHSCORES')
return {count_ready, count_dead, head[1] and math.min(math.max(head[2] * 1000 - now, 0), 1e15) or -1, lost}
