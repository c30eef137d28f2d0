#!lua flags=allow-oom
-- retry: leased -> retry_wait, or -> ready if the delay is 0
-- KEYS     meta jobs waiting ready0 ready1 ready2 ready3 leased expiry lease_members history
-- ARGV     now, channel, then per job: id, group, delay us, 1 | 0 the attempt counts, error text ('' none)
-- uses     clock record ready due wake groups settle history
-- returns  positions (from 0) of the refused jobs, and the ids of those refused because their record is gone: their leases end
local now = clock(ARGV[1])
local now_ms = math.floor(now / 1000)
local ids, groups = jobs_in_arguments(5)
local pasts = call('HMGET', history, unpack(ids))
check_lists()

local later, ready, written, first = {}, {}, {}, nil
local refused, lost, gone, freed = settle_held(ids, groups, function(k, id, record)
    local delay, counted, text = unpack(ARGV, k * 5, k * 5 + 2)
    if counted == '1' or text ~= '' then
        local past = lease_ended(pasts[k], tonumber(counted), 0, text, now)
        if past then written[#written + 1], written[#written + 2] = id, past end
    end
    local due = math.ceil((now + delay) / 1000)
    if tonumber(delay) > 0 and due > now_ms then
        later[#later + 1], later[#later + 2] = score_of(level_of(record), due), id
        if not first or due < first then first = due end
    else
        add_ready(ready, id, record)
    end
end)

local sooner = false
if #written > 0 then call('HSET', history, unpack(written)) end
if first then
    call('ZADD', waiting, unpack(later))
    sooner = expect(first)
end
local woken = push_all(ready, now_ms)
end_leases(gone, freed)
if woken or sooner then wake(ARGV[2], woken, sooner) end
return {refused, lost}
