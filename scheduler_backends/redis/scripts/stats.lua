#!lua flags=no-writes
-- stats: how many jobs stand in each state
-- KEYS     meta scheduled waiting ready0 ready1 ready2 ready3 leased dead succeeded cancelled
-- ARGV     now
-- uses     clock ready
-- returns  scheduled, ready, leased, retry_wait, succeeded, dead, cancelled, us the oldest ready job has waited or -1
local now = clock(ARGV[1])
local waits, number = -1, 0
for level = 0, 3 do
    number = number + call('LLEN', lists[level])
    local head = call('LINDEX', lists[level], 0)
    if head and #head > 6 then waits = math.max(waits, now - struct.unpack('>I6', head) * 1000, 0) end
end
-- No list begins with a dead entry, so where there is one at all, there is a job.
if number > 0 then number = math.max(number - (tonumber(call('HGET', meta, 'tombs') or '0') or 0), 1) end
return {
    call('ZCARD', scheduled), number, math.max(call('HLEN', leased) - 1, 0), call('ZCARD', waiting),
    call('ZCARD', succeeded), call('ZCARD', dead), call('ZCARD', cancelled), waits,
}
