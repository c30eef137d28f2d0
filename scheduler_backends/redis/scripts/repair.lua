#!lua flags=allow-oom
-- repair: ends leases that would never expire, and counts jobs that are in no index. Only damage by hand causes either
-- KEYS     meta jobs scheduled waiting ready0 ready1 ready2 ready3 tombstones leased expiry lease_members dead succeeded cancelled
-- ARGV     now, channel
-- uses     clock record ready due wake groups
-- returns  number of leases that expire now, number of jobs in no index, number of all jobs, now in ms
local now_ms = math.floor(clock(ARGV[1]) / 1000)
local freed = 0
-- Scores that our scripts never write: such a lease would never expire, such a job would never be promoted.
for _, part in ipairs(call('ZRANGEBYSCORE', expiry, whole(now_ms + 367 * 86400000), '+inf', 'LIMIT', 0, 1000)) do
    call('ZADD', expiry, whole(now_ms), part)
    freed = freed + (tonumber(call('HGET', lease_members, 'n' .. group_of(part)) or '') or 1) % PARTED
end
local sooner = false
for _, index in ipairs({scheduled, waiting}) do
    for _, id in ipairs(call('ZRANGEBYSCORE', index, whole(4 * SPAN), '+inf', 'LIMIT', 0, 1000)) do
        call('ZADD', index, score_of(level_of(call('HGET', jobs, id) or ''), now_ms), id)
        sooner = expect(now_ms) or sooner
    end
end
if sooner then wake(ARGV[2], false, true) end
-- If this number is lost, cancelled jobs would be leased.
local counted = call('HLEN', tombstones)
if counted > 0 and (tonumber(call('HGET', meta, 'tombstones') or '0') or 0) < 1 then call('HSET', meta, 'tombstones', counted) end

-- Leases whose group has no expiry. Each call examines some leases and continues where the last call ended.
local place = string.match(call('HGET', meta, 'repair') or '', '^%d+$') or '0'
local found = call('HSCAN', leased, place, 'COUNT', 1000)
if found[1] ~= place then call('HSET', meta, 'repair', found[1]) end
local expires, orphans = {}, {}
for k = 1, #found[2], 2 do
    local id, group = found[2][k], found[2][k + 1]
    if id ~= '' and expires[group] == nil then
        expires[group] = call('ZSCORE', expiry, group)
        for number = 1, expires[group] and 0 or highest_part(group) do
            expires[group] = expires[group] or call('ZSCORE', expiry, part_of(group, number))
        end
    end
    if id ~= '' and not expires[group] then
        orphans[group] = orphans[group] or {}
        table.insert(orphans[group], id)
        freed = freed + 1
    end
end
for group, ids in pairs(orphans) do
    local worker = call('HGET', lease_members, 'w' .. group) or ''
    delete_group(group, true)
    call('ZADD', expiry, whole(now_ms), group)
    call('HSET', lease_members, group, table.concat(ids, '\0'), 'n' .. group, #ids, 'w' .. group, worker)
end

local total = call('HLEN', jobs) - call('HEXISTS', jobs, '')
local indexed = call('HLEN', leased) - call('HEXISTS', leased, '') - (tonumber(call('HGET', meta, 'tombstones') or '0') or 0)
for level = 0, 3 do indexed = indexed + call('LLEN', lists[level]) end
for _, index in ipairs({scheduled, waiting, dead, succeeded, cancelled}) do indexed = indexed + call('ZCARD', index) end
return {freed, math.max(total - indexed, 0), total, whole(now_ms)}
