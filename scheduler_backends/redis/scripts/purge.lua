#!lua flags=allow-oom
-- purge: deletes jobs in one state, any but leased
-- KEYS     meta jobs scheduled waiting ready0 ready1 ready2 ready3 tombs history dead succeeded cancelled results
-- ARGV     state, limit
-- uses     ready tombs
-- returns  how many went
local state, left = ARGV[1], tonumber(ARGV[2])
local sorted = {scheduled = scheduled, retry_wait = waiting, dead = dead, succeeded = succeeded, cancelled = cancelled}
local ids = {}
if sorted[state] then
    ids = call('ZRANGE', sorted[state], 0, left - 1)
else
    for level = 0, 3 do
        while #ids < left do
            local entry = call('LPOP', lists[level])
            if not entry then break end
            local id = string.sub(entry, 7)
            if not is_dead(level, id) then ids[#ids + 1] = id end
        end
        sweep(level)
    end
end
if #ids == 0 then return 0 end
call('HDEL', jobs, unpack(ids))
call('HDEL', history, unpack(ids))
call('HDEL', results, unpack(ids))
if sorted[state] then call('ZREM', sorted[state], unpack(ids)) end
return #ids
