#!lua flags=no-writes
-- marked: partitions whose first lease may have expired
-- KEYS     leases
-- ARGV     now, how many of them to pass over, how many at most
-- uses     clock
-- returns  partitions and their marks in turn
local now = string.format('%.0f', clock(ARGV[1]))
return call('ZRANGEBYSCORE', leases, '-inf', now, 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[3])
