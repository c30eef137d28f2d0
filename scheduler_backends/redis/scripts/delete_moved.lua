#!lua flags=allow-oom
-- delete_moved: deletes finished jobs that were moved to another version, and then the first entries that have no record
-- KEYS     jobs history dead succeeded cancelled results
-- ARGV     state, number of entries to examine, ids
-- uses     entries
-- returns  number of entries removed
local index = ({dead = dead, succeeded = succeeded, cancelled = cancelled})[ARGV[1]]
local gone = {}
for k = 3, #ARGV do
    if call('ZREM', index, ARGV[k]) == 1 then gone[#gone + 1] = ARGV[k] end
end
for _, id in ipairs(call('ZRANGE', index, 0, ARGV[2] - 1)) do
    if call('HEXISTS', jobs, id) == 0 and call('ZREM', index, id) == 1 then gone[#gone + 1] = id end
end
delete(gone)
return #gone
