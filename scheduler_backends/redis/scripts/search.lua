#!lua flags=no-writes
-- search: jobs in no index, except perhaps a list of ready jobs; each call looks at some
-- KEYS     jobs scheduled waiting ready0 ready1 ready2 ready3 leased history dead succeeded cancelled results
-- ARGV     where the last call ended
-- uses     ready meant
-- returns  where this one ended, ids
local found = call('HSCAN', jobs, ARGV[1], 'COUNT', 500)
local ids = {}
for k = 1, #found[2], 2 do
    if found[2][k] ~= '' then ids[#ids + 1] = found[2][k] end
end
return {found[1], nowhere_else(ids)}
