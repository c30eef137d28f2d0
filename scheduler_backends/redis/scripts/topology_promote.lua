#!lua
-- topology_promote: makes a version the active one; all older versions drain
-- KEYS     topology
-- ARGV     version, partitions
-- uses
-- returns  '' | the reason for a refusal; all fields and values, alternating
local version, partitions = tonumber(ARGV[1]), tonumber(ARGV[2])
local active = tonumber(call('HGET', topology, 'active'))
local known = tonumber(call('HGET', topology, 'v:' .. version) or '0')
local reason = ''
if known > 0 and known ~= partitions then
    reason = 'version ' .. version .. ' has ' .. known .. ' partitions, and that never changes'
elseif known > 0 and version ~= active then
    reason = 'version ' .. version .. ' is draining'
elseif known == 0 and version <= (tonumber(call('HGET', topology, 'highest') or '') or active) then
    reason = 'versions only grow, and ' .. (call('HGET', topology, 'highest') or active) .. ' has been used'
elseif known == 0 then
    call('HSET', topology, 'v:' .. version, partitions, 'active', version, 'highest', version)
    call('HINCRBY', topology, 'epoch', 1)
end
return {reason, call('HGETALL', topology)}
