#!lua flags=allow-oom
-- topology_pause: pauses or resumes the queue under a new number; partitions that are opened later copy both
-- KEYS     topology
-- ARGV     1 | 0
-- uses
-- returns  all fields and values, alternating
local number = call('HINCRBY', topology, 'pauses', 1)
call('HSET', topology, 'pause', number .. ':' .. ARGV[1])
return call('HGETALL', topology)
