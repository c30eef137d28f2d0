#!lua flags=allow-oom
-- mend: finds leases that nothing would end and jobs that no index names, which only damage by hand can make. Two counts
-- tell whether there is any; only then is all of it searched.
-- KEYS     meta jobs scheduled waiting ready0 ready1 ready2 ready3 tombs leased expiry holding dead succeeded cancelled
-- ARGV     now, channel, most jobs to search through
-- uses     clock record ready due wake groups
-- returns  leases that will now be recovered, jobs that are ready again, 0 | jobs that no index names, too many to search
local now_ms = math.floor(clock(ARGV[1]) / 1000)
local most = tonumber(ARGV[3])
local freed = 0
-- Scores that none of our scripts writes: such a lease would never end, such a job never be promoted.
for _, part in ipairs(call('ZRANGEBYSCORE', expiry, whole(now_ms + 367 * 86400000), '+inf', 'LIMIT', 0, 1000)) do
    call('ZADD', expiry, whole(now_ms), part)
    freed = freed + #members(call('HGET', holding, part))
end
local sooner = false
for _, index in ipairs({scheduled, waiting}) do
    for _, id in ipairs(call('ZRANGEBYSCORE', index, whole(4 * SPAN), '+inf', 'LIMIT', 0, 1000)) do
        call('ZADD', index, score_of(level_of(call('HGET', jobs, id) or ''), now_ms), id)
        sooner = expect(now_ms) or sooner
    end
end
if sooner then wake(ARGV[2], false, true) end
-- Without their number, cancelled jobs would be leased.
local buried = call('HLEN', tombs)
if buried > 0 and (tonumber(call('HGET', meta, 'tombs') or '0') or 0) < 1 then call('HSET', meta, 'tombs', buried) end

local held = call('HLEN', leased) - call('HEXISTS', leased, '')
local told, expires = 0, {}
for _, part in ipairs(call('ZRANGE', expiry, 0, -1)) do
    local group = group_of(part)
    if not expires[group] then told = told + (tonumber(call('HGET', holding, 'n' .. group) or '0') or 0) end
    expires[group] = true
end
if told ~= held then
    local groups = {}
    local all = call('HGETALL', leased)
    for k = 1, #all, 2 do
        local id, group = all[k], all[k + 1]
        if id ~= '' then
            groups[group] = groups[group] or {}
            table.insert(groups[group], id)
        end
    end
    for group, ids in pairs(groups) do
        local number = call('HGET', holding, 'n' .. group)
        if not expires[group] or tonumber(number or '-1') ~= #ids then
            local worker = call('HGET', holding, 'w' .. group) or ''
            forget(group)
            call('ZADD', expiry, string.format('%.0f', now_ms), group)
            call('HSET', holding, group, table.concat(ids, '\0'), 'n' .. group, #ids, 'w' .. group, worker)
            freed = freed + #ids
        end
    end
end

local listed = 0
for level = 0, 3 do listed = listed + call('LLEN', lists[level]) end
local indexed = listed - (tonumber(call('HGET', meta, 'tombs') or '0') or 0) + held
for _, index in ipairs({scheduled, waiting, dead, succeeded, cancelled}) do indexed = indexed + call('ZCARD', index) end
local missing = call('HLEN', jobs) - call('HEXISTS', jobs, '') - indexed
if missing <= 0 then return {freed, 0, 0} end
if missing + indexed > most then return {freed, 0, missing} end

local named, again, news = {}, 0, false
for level = 0, 3 do
    for _, entry in ipairs(call('LRANGE', lists[level], 0, -1)) do named[string.sub(entry, 7)] = true end
end
for _, id in ipairs(call('HKEYS', jobs)) do
    if id ~= '' and not named[id] and call('HEXISTS', leased, id) == 0 then
        local found = false
        for _, index in ipairs({scheduled, waiting, dead, succeeded, cancelled}) do
            found = found or call('ZSCORE', index, id)
        end
        if not found then
            news = push(level_of(call('HGET', jobs, id)), {id}, now_ms) or news
            again = again + 1
        end
    end
end
if news then wake(ARGV[2], true) end
return {freed, again, 0}
