#!lua flags=allow-oom
-- bury: leased -> dead
-- KEYS     jobs leased expiry lease_members history dead
-- ARGV     now, 1 kept | 0 deleted at once, then per job: id, group, 1 | 0 the attempt counts, error text ('' none)
-- uses     clock groups settle history
-- returns  positions (from 0) of the refused jobs, and the ids of those refused because their record is gone: their leases end
local now = clock(ARGV[1])
local now_ms = string.format('%.0f', math.floor(now / 1000))
local ids, groups = jobs_in_arguments(4)
local pasts = call('HMGET', history, unpack(ids))
local kept, died, written = ARGV[2] == '1', {}, {}
local refused, lost, gone, freed = settle_held(ids, groups, function(k, id)
    died[#died + 1] = id
    local past = lease_ended(pasts[k], tonumber(ARGV[k * 4 + 1]), 0, ARGV[k * 4 + 2], now)
    if past then written[#written + 1], written[#written + 2] = id, past end
end)
end_as_dead(died, kept, now_ms)
if kept and #written > 0 then call('HSET', history, unpack(written)) end
end_leases(gone, freed)
return {refused, lost}
