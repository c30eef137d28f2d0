#!lua flags=allow-oom
-- mark: marks partitions before leases are taken in them. A mark is a lower bound of the first lease expiry in its
-- partition. It is written before the lease, so that no lease is without a mark if the caller dies in between.
-- KEYS     leases
-- ARGV     now, duration of the leases in ms, tags of partitions
-- uses     clock
-- returns  per partition: its new mark if it had none before, else ''
local expires = clock(ARGV[1]) + ARGV[2] * 1000
local answer, marks = {}, {}
for k = 3, #ARGV do
    local old = call('ZSCORE', leases, ARGV[k])
    -- Always lower than the old one, if only by 1 or 2, so that unmark detects that leases may have been taken; always even.
    local mark = string.format('%.0f', math.floor(math.min(old and old - 1 or expires, expires) / 2) * 2)
    marks[#marks + 1], marks[#marks + 2] = mark, ARGV[k]
    answer[k - 2] = old and '' or mark
end
call('ZADD', leases, unpack(marks))
return answer
