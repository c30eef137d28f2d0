#!lua
-- enqueue: -> scheduled or ready. Without the flag allow-oom, so the whole call is refused when memory is full.
-- KEYS     meta jobs scheduled ready0 ready1 ready2 ready3 leased expiry lease_members history waiting dead cancelled succeeded
-- ARGV     now, channel, then per job: id, when, body
--          when: '' now | '@' 8 bytes run_at us, due ms in digits | '+' delay us in digits
-- uses     clock ready due wake groups
-- returns  now us, 0 | 1 gate open, then per job whose id is already stored: its position (from 1), negative if the stored
--          job was made from the same NewJob
local now = clock(ARGV[1])
local now_ms = math.floor(now / 1000)
local gate = call('HGET', meta, 'gate')
if gate ~= 'open' then return {whole(now), 0} end

local count = (#ARGV - 2) / 3
local ids = {}
for k = 1, count do ids[k] = ARGV[k * 3] end
local stored = call('HMGET', jobs, unpack(ids))
local holders = call('HMGET', leased, unpack(ids))

local answer = {whole(now), 1}
local moment = struct.pack('<i8', now)
local plain = moment .. moment -- created_at and run_at of a job that is due at once
local records, number = {}, 0 -- counted, since Lua searches for the length of a table each time
local ready, numbers = {}, {}
local later, first = {}, nil
local ended = {}
for k = 1, count do
    local id, when, body = ids[k], ARGV[k * 3 + 1], ARGV[k * 3 + 2]
    if stored[k] then -- a repeat has the same nonce: bytes 23 to 30 of a record, 7 to 14 of a body
        answer[#answer + 1] = string.sub(stored[k], 23, 30) == string.sub(body, 7, 14) and -k or k
    else
        -- The record of a leased job was removed by hand: its holder must not settle the new job.
        if holders[k] then ended[#ended + 1] = k end
        local due, times = 0, plain
        if when ~= '' then
            if string.byte(when) == 64 then
                due = tonumber(string.sub(when, 10))
                times = moment .. string.sub(when, 2, 9)
            else
                local run_at = math.min(now + tonumber(string.sub(when, 2)), 253402300799999968) -- the end of the year 9999
                due = math.ceil(run_at / 1000)
                times = moment .. struct.pack('<i8', run_at)
            end
        end
        records[number + 1], records[number + 2] = id, times .. body
        number = number + 2
        local level = string.byte(body, 2) % 4
        if due > now_ms then
            later[#later + 1], later[#later + 2] = score_of(level, due), id
            if not first or due < first then first = due end
        elseif ready[level] then
            numbers[level] = numbers[level] + 1
            ready[level][numbers[level]] = id
        else
            ready[level], numbers[level] = {id}, 1
        end
    end
end
if number == 0 then return answer end

-- Lists are read before the first write, so a key of a wrong type fails before any change. The index is written before
-- the record: an entry without a record is dropped later, but a record without an entry would wait for ever.
for level in pairs(ready) do call('LLEN', lists[level]) end
-- If a record was removed by hand, its id may remain in these indexes. The new job must not get the old state or history.
local present = {}
local left = call('EXISTS', scheduled, succeeded, history, dead, waiting, cancelled)
for _, index in ipairs(left > 0 and {scheduled, succeeded, history, dead, waiting, cancelled} or {}) do
    if left == 0 then break end -- most partitions have few of these
    if call(index == history and 'HLEN' or 'ZCARD', index) > 0 then
        present[#present + 1], left = index, left - 1
    end
end
if present[1] then
    local new = number == 2 * count and ids or {}
    for k = 1, new == ids and 0 or number, 2 do new[#new + 1] = records[k] end
    for _, index in ipairs(present) do call(index == history and 'HDEL' or 'ZREM', index, unpack(new)) end
end
local sooner = false
if first then
    call('ZADD', scheduled, unpack(later))
    sooner = expect(first)
end
local woken = push_all(ready, now_ms)
call('HSET', jobs, unpack(records))
for _, k in ipairs(ended) do
    call('HDEL', leased, ids[k])
    reduce_held(holders[k], 1)
end
if woken or sooner then wake(ARGV[2], woken, sooner) end
return answer
