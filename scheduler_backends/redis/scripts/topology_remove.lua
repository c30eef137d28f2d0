#!lua flags=allow-oom
-- topology_remove: removes a version, after all its partitions were found sealed and empty
-- KEYS     topology
-- ARGV     version
-- uses
-- returns  all fields and values in turn
if call('HGET', topology, 'active') ~= ARGV[1] and call('HDEL', topology, 'v:' .. ARGV[1]) == 1 then
    call('HINCRBY', topology, 'epoch', 1)
end
return call('HGETALL', topology)
