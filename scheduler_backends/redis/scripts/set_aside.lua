#!lua flags=allow-oom
-- set_aside: takes leased jobs whose record cannot be read out of the queue, and keeps the record with the reason
-- KEYS     jobs leased expiry holding history aside
-- ARGV     group, then per job: id, reason
-- uses     groups aside
-- returns  how many went
local group, gone = ARGV[1], 0
for k = 2, #ARGV, 2 do
    local id = ARGV[k]
    if call('HGET', leased, id) == group then
        set_aside(id, ARGV[k + 1], call('HGET', jobs, id))
        call('HDEL', jobs, id)
        call('HDEL', history, id)
        let_go(group, call('HDEL', leased, id))
        gone = gone + 1
    end
end
return gone
