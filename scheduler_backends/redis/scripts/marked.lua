#!lua flags=no-writes
-- marked: partitions whose first lease may have expired
-- KEYS     leases
-- ARGV     now, how many to skip, the maximum number to return
-- uses     clock
-- returns  tags of partitions and their marks, alternating
local now = string.format('%.0f', clock(ARGV[1]))
return call('ZRANGEBYSCORE', leases, '-inf', now, 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[3])
