#!lua flags=allow-oom
-- retry: leased -> retry_wait, or ready where the delay is 0
-- KEYS     meta jobs waiting ready0 ready1 ready2 ready3 leased expiry lease_members history
-- ARGV     now, channel, then per job: id, group, delay us, 1 | 0 the attempt counts, error text ('' none)
-- uses     clock record ready due wake groups history
-- returns  numbers (from 0) of the refused, ids among them whose record is gone, and whose lease ends with it
local now = clock(ARGV[1])
local now_ms = math.floor(now / 1000)
local count = (#ARGV - 2) / 5
local ids = {}
for k = 1, count do ids[k] = ARGV[k * 5 - 2] end
local holders = call('HMGET', leased, unpack(ids))
local records = call('HMGET', jobs, unpack(ids))
local pasts = call('HMGET', history, unpack(ids))
for level = 0, 3 do call('LLEN', lists[level]) end -- no write before every key has proved to be of its type

local refused, lost, later, ready, gone, freed, written, first = {}, {}, {}, {}, {}, {}, {}, nil
for k = 1, count do
    local id, group, delay, counted, text = unpack(ARGV, k * 5 - 2, k * 5 + 2)
    if holders[k] ~= group then
        refused[#refused + 1] = k - 1
    else
        holders[k] = nil
        gone[#gone + 1] = id
        freed[group] = (freed[group] or 0) + 1
        if not records[k] then
            refused[#refused + 1] = k - 1
            lost[#lost + 1] = id
        else
            if counted == '1' or text ~= '' then
                local past = lease_ended(pasts[k], tonumber(counted), 0, text, now)
                if past then written[#written + 1], written[#written + 2] = id, past end
            end
            local level = level_of(records[k])
            local due = math.ceil((now + delay) / 1000)
            if tonumber(delay) > 0 and due > now_ms then
                later[#later + 1], later[#later + 2] = score_of(level, due), id
                if not first or due < first then first = due end
            else
                ready[level] = ready[level] or {}
                table.insert(ready[level], id)
            end
        end
    end
end

local sooner, news = false, false
if #written > 0 then call('HSET', history, unpack(written)) end
if first then
    call('ZADD', waiting, unpack(later))
    sooner = expect(first)
end
for level, ids_ready in pairs(ready) do
    news = push(level, ids_ready, now_ms) or news
end
if #gone > 0 then call('HDEL', leased, unpack(gone)) end
for group, number in pairs(freed) do let_go(group, number) end
if news or sooner then wake(ARGV[2], news, sooner) end
return {refused, lost}
