#!lua flags=allow-oom
-- topology_remove: removes a version. The caller has checked that all its partitions are sealed and empty
-- KEYS     topology
-- ARGV     version
-- uses
-- returns  all fields and values, alternating
if call('HGET', topology, 'active') ~= ARGV[1] and call('HDEL', topology, 'v:' .. ARGV[1]) == 1 then
    call('HINCRBY', topology, 'epoch', 1)
end
return call('HGETALL', topology)
