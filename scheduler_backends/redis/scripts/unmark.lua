#!lua flags=allow-oom
-- unmark: new marks for partitions that were asked, unless they were marked again meanwhile
-- KEYS     leases
-- ARGV     now, ms for which one without leases keeps its mark, then per partition: it, its mark when it was asked,
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
            -- A lease call may have marked it before it was asked, and lease from it only now. Odd = found without leases once.
            call('ZADD', leases, string.format('%.0f', math.floor(now / 2) * 2 + ARGV[2] * 1000 + 1), partition)
        else
            call('ZREM', leases, partition)
        end
    end
end
return 1
