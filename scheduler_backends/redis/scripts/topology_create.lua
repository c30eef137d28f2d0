#!lua
-- topology_create: creates the first version of a queue if it has none
-- KEYS     topology
-- ARGV     version, partitions
-- uses
-- returns  all fields and values, alternating
if call('HEXISTS', topology, 'active') == 0 then
    call('HSET', topology, 'active', ARGV[1], 'highest', ARGV[1], 'epoch', 1, 'v:' .. ARGV[1], ARGV[2])
end
return call('HGETALL', topology)
