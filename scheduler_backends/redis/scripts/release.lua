#!lua flags=allow-oom
-- release: leased -> ready, first in line; no attempt is used, so nothing else changes
-- KEYS     meta jobs ready0 ready1 ready2 ready3 leased expiry lease_members
-- ARGV     now, channel, then per job: id, group
-- uses     clock record ready wake groups
-- returns  numbers (from 0) of the refused, ids among them whose record is gone, and whose lease ends with it
local now_ms = math.floor(clock(ARGV[1]) / 1000)
local count = (#ARGV - 2) / 2
local ids = {}
for k = 1, count do ids[k] = ARGV[k * 2 + 1] end
local holders = call('HMGET', leased, unpack(ids))
local records = call('HMGET', jobs, unpack(ids))

local refused, lost, ready, gone, freed = {}, {}, {}, {}, {}
for k = 1, count do
    local id, group = ids[k], ARGV[k * 2 + 2]
    if holders[k] ~= group then
        refused[#refused + 1] = k - 1
    else
        gone[#gone + 1] = id
        freed[group] = (freed[group] or 0) + 1
        if not records[k] then
            refused[#refused + 1] = k - 1
            lost[#lost + 1] = id
        else
            local level = level_of(records[k])
            ready[level] = ready[level] or {}
            table.insert(ready[level], id)
        end
    end
end

local news = false
for level, ids_ready in pairs(ready) do
    -- With the stamp of the present head, so that the head always shows the longest wait.
    local head = call('LINDEX', lists[level], 0)
    local stamp, entries = head and string.sub(head, 1, 6) or stamp_of(now_ms), {}
    for k = #ids_ready, 1, -1 do entries[#entries + 1] = stamp .. ids_ready[k] end
    call('LPUSH', lists[level], unpack(entries))
    news = news or not head
end
if #gone > 0 then call('HDEL', leased, unpack(gone)) end
for group, number in pairs(freed) do let_go(group, number) end
if news then wake(ARGV[2], true) end
return {refused, lost}
