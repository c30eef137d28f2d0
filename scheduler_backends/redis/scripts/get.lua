#!lua flags=no-writes
-- get: the present state of jobs
-- KEYS     jobs scheduled waiting leased expiry lease_members history dead succeeded cancelled results
-- ARGV     ids
-- uses     due groups states view
-- returns  per id: its view (prelude/view.lua), or nothing if there is no such job
local answer = {}
for k = 1, #ARGV do answer[k] = view(ARGV[k]) end
return answer
