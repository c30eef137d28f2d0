#!lua flags=allow-oom
-- unmark_own: removes marks that only the caller has written, after its leases have ended
-- KEYS     leases
-- ARGV     per partition: its tag, the mark
-- uses
-- returns  number of marks removed
local partitions, gone = {}, {}
for k = 1, #ARGV, 2 do partitions[#partitions + 1] = ARGV[k] end
for k, mark in ipairs(call('ZMSCORE', leases, unpack(partitions))) do
    if mark and tonumber(mark) == tonumber(ARGV[k * 2]) then gone[#gone + 1] = partitions[k] end
end
if #gone > 0 then call('ZREM', leases, unpack(gone)) end
return #gone
