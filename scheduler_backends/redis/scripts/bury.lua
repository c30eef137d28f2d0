#!lua flags=allow-oom
-- bury: leased -> dead
-- KEYS     jobs leased expiry lease_members history dead
-- ARGV     now, 1 kept | 0 deleted at once, then per job: id, group, 1 | 0 the attempt counts, error text ('' none)
-- uses     clock groups history
-- returns  numbers (from 0) of the refused, ids among them whose record is gone, and whose lease ends with it
local now = clock(ARGV[1])
local count = (#ARGV - 2) / 4
local ids = {}
for k = 1, count do ids[k] = ARGV[k * 4 - 1] end
local holders = call('HMGET', leased, unpack(ids))
local records = call('HMGET', jobs, unpack(ids))
local pasts = call('HMGET', history, unpack(ids))

local refused, lost, scores, gone, freed, written = {}, {}, {}, {}, {}, {}
for k = 1, count do
    local id, group, counted, text = unpack(ARGV, k * 4 - 1, k * 4 + 2)
    if holders[k] ~= group then
        refused[#refused + 1] = k - 1
    else
        gone[#gone + 1] = id
        freed[group] = (freed[group] or 0) + 1
        if not records[k] then
            refused[#refused + 1] = k - 1
            lost[#lost + 1] = id
        else
            scores[#scores + 1], scores[#scores + 2] = string.format('%.0f', math.floor(now / 1000)), id
            local past = lease_ended(pasts[k], tonumber(counted), 0, text, now)
            if past then written[#written + 1], written[#written + 2] = id, past end
        end
    end
end
if #gone == 0 then return {refused, lost} end

if ARGV[2] == '1' then
    if #scores > 0 then
        call('ZADD', dead, unpack(scores))
        if #written > 0 then call('HSET', history, unpack(written)) end
    end
else
    call('HDEL', jobs, unpack(gone))
    call('HDEL', history, unpack(gone))
end
call('HDEL', leased, unpack(gone))
for group, number in pairs(freed) do let_go(group, number) end
return {refused, lost}
