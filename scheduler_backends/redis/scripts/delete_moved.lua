#!lua flags=allow-oom
-- delete_moved: deletes finished jobs that were moved to another version
-- KEYS     jobs history dead succeeded cancelled results
-- ARGV     state, ids
-- uses     entries
-- returns  number of jobs deleted
local index = ({dead = dead, succeeded = succeeded, cancelled = cancelled})[ARGV[1]]
local gone = {}
for k = 2, #ARGV do
    if call('ZREM', index, ARGV[k]) == 1 then gone[#gone + 1] = ARGV[k] end
end
delete(gone)
return #gone
