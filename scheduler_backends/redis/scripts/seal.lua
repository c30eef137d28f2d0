#!lua flags=allow-oom
-- seal: closes the partition to new jobs for ever, and optionally refuses requeue for some time
-- KEYS     meta scheduled waiting ready0 ready1 ready2 ready3 tombstones leased dead succeeded cancelled
-- ARGV     now, the completion of the version that refuses requeue ('' none), ms from now until it ends (0 = it has ended)
-- uses     clock ready tombstones due closing
-- returns  scheduled, ready, leased, retry_wait, succeeded, dead, cancelled, 1 = call again: dead entries still hide the ready jobs
local now_ms = math.floor(clock(ARGV[1]) / 1000)
call('HSET', meta, 'gate', 'sealed')
if ARGV[2] ~= '' then
    local marks, words = active_completions(now_ms), {}
    marks[ARGV[2]] = ARGV[3] ~= '0' and whole(now_ms + ARGV[3]) or nil
    for owner, until_ms in pairs(marks) do words[#words + 1] = owner .. ' ' .. until_ms end
    if #words > 0 then call('HSET', meta, 'closing', table.concat(words, ' ')) else call('HDEL', meta, 'closing') end
end
local number, again = 0, 0
for level = 0, 3 do
    if not sweep(level) then again = 1 end
    number = number + call('LLEN', lists[level])
end
-- After the sweep no list begins with a dead entry, so a list that is not empty has at least one job.
if number > 0 then number = math.max(number - (tonumber(call('HGET', meta, 'tombstones') or '0') or 0), 1) end
return {
    call('ZCARD', scheduled), number, math.max(call('HLEN', leased) - 1, 0), call('ZCARD', waiting),
    call('ZCARD', succeeded), call('ZCARD', dead), call('ZCARD', cancelled), again,
}
