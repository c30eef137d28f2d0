#!lua flags=allow-oom
-- cancel: scheduled | ready | retry_wait -> cancelled
-- KEYS     meta jobs scheduled waiting ready0 ready1 ready2 ready3 tombstones leased expiry lease_members history dead succeeded cancelled results
-- ARGV     now, 1 kept | 0 deleted at once, ids
-- uses     clock record ready tombstones due groups states view
-- returns  per id: '' no such job | '!' moved | the state of the job, which is not moved
local now_ms = math.floor(clock(ARGV[1]) / 1000)
local kept = ARGV[2] == '1'
local allowed = {scheduled = scheduled, retry_wait = waiting, ready = false}
call('ZCARD', cancelled)
call('HLEN', tombstones)

local answer, touched = {}, {}
for k = 3, #ARGV do
    local id = ARGV[k]
    local job = view(id)
    if not job then
        answer[#answer + 1] = ''
    elseif allowed[job[1]] == nil then
        answer[#answer + 1] = job[1]
    else
        local index = allowed[job[1]]
        if kept then
            call('ZADD', cancelled, whole(now_ms), id)
        else
            call('HDEL', jobs, id)
            call('HDEL', history, id)
        end
        if index then
            call('ZREM', index, id)
        else
            local level = level_of(job[2])
            -- If the level is damaged, the tombstone would count for the wrong list, so none is written. A lease call then
            -- takes the entry, and quarantine finds that the job cannot be read and is cancelled.
            if is_sound(job[2]) then
                local field = level .. ':' .. id
                call('HSET', tombstones, field, (tonumber(call('HGET', tombstones, field) or '0') or 0) + 1)
                add_tombstones(1)
                touched[level] = true
            end
        end
        answer[#answer + 1] = '!'
    end
end
for level in pairs(touched) do sweep(level) end
return answer
