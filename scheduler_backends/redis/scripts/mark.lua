#!lua flags=allow-oom
-- mark: partitions are about to have leases that expire in so many ms. A mark is not later than the first expiry in its
-- partition. It is written before the lease, so that a holder that dies in between leaves no lease without a mark.
-- KEYS     leases
-- ARGV     now, duration ms, partitions
-- uses     clock
-- returns  per partition: its mark where it had none, else ''
local expires = clock(ARGV[1]) + ARGV[2] * 1000
local answer, marks = {}, {}
for k = 3, #ARGV do
    local old = call('ZSCORE', leases, ARGV[k])
    -- Always lower than before, if only by 1 or 2, so that unmark sees that a lease may have come; always even.
    local mark = string.format('%.0f', math.floor(math.min(old and old - 1 or expires, expires) / 2) * 2)
    marks[#marks + 1], marks[#marks + 2] = mark, ARGV[k]
    answer[k - 2] = old and '' or mark
end
call('ZADD', leases, unpack(marks))
return answer
