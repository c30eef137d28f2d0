#!lua flags=no-writes
-- search: finds jobs that are in no index, except possibly a ready list; each call examines some of the jobs
-- KEYS     jobs scheduled waiting ready0 ready1 ready2 ready3 leased history dead succeeded cancelled results
-- ARGV     the cursor that the previous call returned, '0' at first
-- uses     ready entries
-- returns  the cursor, '0' at the end; ids
local found = call('HSCAN', jobs, ARGV[1], 'COUNT', 500)
local ids = {}
for k = 1, #found[2], 2 do
    if found[2][k] ~= '' then ids[#ids + 1] = found[2][k] end
end
return {found[1], nowhere_else(ids)}
