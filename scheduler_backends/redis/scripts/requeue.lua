#!lua flags=allow-oom
-- requeue: dead -> ready. Resets attempts and crashes, keeps errors. Refused while the version is being completed.
-- KEYS     meta jobs scheduled waiting ready0 ready1 ready2 ready3 leased expiry lease_members history dead succeeded cancelled results
-- ARGV     now, channel, ids
-- uses     clock record ready due wake groups history states view closing
-- returns  per id: '' no such job | '!' moved | the state of the job, which is not moved
local now = clock(ARGV[1])
local now_ms = math.floor(now / 1000)
local closing = next(active_completions(now_ms)) ~= nil
check_lists()

local answer, woken = {}, false
for k = 3, #ARGV do
    local id = ARGV[k]
    local job = view(id)
    if not job then
        answer[#answer + 1] = ''
    elseif job[1] ~= 'dead' or closing then
        answer[#answer + 1] = job[1]
    else
        woken = push(level_of(job[2]), {id}, now_ms) or woken
        if job[3] ~= '' and read_history(job[3]) then call('HSET', history, id, reset_history(job[3])) end
        call('ZREM', dead, id)
        answer[#answer + 1] = '!'
    end
end
if woken then wake(ARGV[2], true) end
return answer
