#!lua flags=no-writes
-- get: jobs as they are now
-- KEYS     jobs scheduled waiting leased expiry lease_members history dead succeeded cancelled results
-- ARGV     ids
-- uses     due groups states view
-- returns  per id: its view, or nothing
local answer = {}
for k = 1, #ARGV do answer[k] = view(ARGV[k]) end
return answer
