#!lua flags=allow-oom
-- delete_moved: deletes finished jobs that were moved to another version
-- KEYS     jobs history dead succeeded cancelled results
-- ARGV     state, ids
-- uses
-- returns  how many were deleted
local sorted = {dead = dead, succeeded = succeeded, cancelled = cancelled}
local gone = 0
for k = 2, #ARGV do
    local id = ARGV[k]
    if call('ZREM', sorted[ARGV[1]], id) == 1 then
        call('HDEL', jobs, id)
        call('HDEL', history, id)
        call('HDEL', results, id)
        gone = gone + 1
    end
end
return gone
