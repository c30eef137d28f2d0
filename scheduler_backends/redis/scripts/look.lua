#!lua flags=no-writes
-- look: whether a partition has due or ready jobs or leases that expire, since notifications may have been lost
-- KEYS     meta scheduled waiting ready0 ready1 ready2 ready3 expiry
-- ARGV     now
-- uses     clock
-- returns  us until the next job is due or -1, 1 | 0 a job is ready, us until the first lease expires or -1
local now = clock(ARGV[1])
local function us_until(ms)
    return ms and math.min(math.max(ms * 1000 - now, 0), 1e15) or -1 -- bounded: a score that another program wrote may be infinite
end
local bound = call('HGET', meta, 'due')
if bound ~= 'none' and not tonumber(bound or '') and call('EXISTS', scheduled, waiting) > 0 then bound = 0 end
local head = call('ZRANGE', expiry, 0, 0, 'WITHSCORES')
return {us_until(tonumber(bound or 'none')), math.min(call('EXISTS', ready0, ready1, ready2, ready3), 1), us_until(head[2])}
