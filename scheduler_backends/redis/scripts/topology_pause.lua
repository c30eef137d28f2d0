#!lua flags=allow-oom
-- topology_pause: numbers a pause or resume of the queue; partitions opened later copy it
-- KEYS     topology
-- ARGV     1 | 0
-- uses
-- returns  all fields and values in turn
local number = call('HINCRBY', topology, 'pauses', 1)
call('HSET', topology, 'pause', number .. ':' .. ARGV[1])
return call('HGETALL', topology)
