#!lua flags=allow-oom
-- unmark: replaces the marks of partitions that were recovered, unless they were marked again meanwhile
-- KEYS     leases
-- ARGV     now, ms for which a partition without leases keeps a mark, then per partition: its tag, its mark as it was read,
--          us until its first lease expires or -1
-- uses     clock
-- returns  1
local now = clock(ARGV[1])
for k = 3, #ARGV, 3 do
    local partition, mark, wait = ARGV[k], tonumber(ARGV[k + 1]), tonumber(ARGV[k + 2])
    if tonumber(call('ZSCORE', leases, partition) or '-1') == mark then
        if wait >= 0 then
            call('ZADD', leases, string.format('%.0f', math.floor((now + wait) / 2) * 2), partition)
        elseif mark % 2 == 0 then
            -- Kept: a lease call may have marked it already and not leased yet. Odd = it was found without leases once.
            call('ZADD', leases, string.format('%.0f', math.floor(now / 2) * 2 + ARGV[2] * 1000 + 1), partition)
        else
            call('ZREM', leases, partition)
        end
    end
end
return 1
