#!lua flags=allow-oom
-- release: leased -> ready, at the front of the list. No attempt is counted
-- KEYS     meta jobs ready0 ready1 ready2 ready3 leased expiry lease_members
-- ARGV     now, channel, then per job: id, group
-- uses     clock record ready wake groups settle
-- returns  positions (from 0) of the refused jobs, and the ids of those refused because their record is gone: their leases end
local now_ms = math.floor(clock(ARGV[1]) / 1000)
local ids, groups = jobs_in_arguments(2)
local ready = {}
local refused, lost, gone, freed = settle_held(ids, groups, function(_, id, record)
    add_ready(ready, id, record)
end)

local woken = false
for level, ids_ready in pairs(ready) do
    -- With the stamp of the present head, so that the head always has the earliest stamp.
    local head = call('LINDEX', lists[level], 0)
    local stamp, entries = head and string.sub(head, 1, 6) or stamp_of(now_ms), {}
    for k = #ids_ready, 1, -1 do entries[#entries + 1] = stamp .. ids_ready[k] end
    call('LPUSH', lists[level], unpack(entries))
    woken = woken or not head
end
end_leases(gone, freed)
if woken then wake(ARGV[2], true) end
return {refused, lost}
