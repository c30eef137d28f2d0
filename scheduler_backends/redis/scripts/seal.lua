#!lua flags=allow-oom
-- seal: no job enters this partition any more, for ever; while it is being closed no dead job comes back to life
-- KEYS     meta scheduled waiting ready0 ready1 ready2 ready3 leased dead succeeded cancelled
-- ARGV     now, ms from now in which requeue is refused (0 = end that)
-- uses     clock ready due
-- returns  scheduled, ready, leased, retry_wait, succeeded, dead, cancelled
local now_ms = math.floor(clock(ARGV[1]) / 1000)
call('HSET', meta, 'gate', 'sealed')
if ARGV[2] == '0' then call('HDEL', meta, 'closing') else call('HSET', meta, 'closing', whole(now_ms + ARGV[2])) end
local number = 0
for level = 0, 3 do number = number + call('LLEN', lists[level]) end
-- No list begins with a dead entry, so where there is one at all, there is a job.
if number > 0 then number = math.max(number - (tonumber(call('HGET', meta, 'tombs') or '0') or 0), 1) end
return {
    call('ZCARD', scheduled), number, math.max(call('HLEN', leased) - 1, 0), call('ZCARD', waiting),
    call('ZCARD', succeeded), call('ZCARD', dead), call('ZCARD', cancelled),
}
