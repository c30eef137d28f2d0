#!lua
-- open_gate: opens a new partition for jobs; a sealed one stays sealed
-- KEYS     meta jobs leased
-- ARGV     pause of the queue: its number, ':', 1 | 0
-- uses     pause
-- returns  the gate
if call('HGET', meta, 'gate') == 'sealed' then return 'sealed' end
-- A value of 65 bytes prevents Redis from storing a small hash as a listpack, where a look-up scans all fields.
call('HSETNX', jobs, '', string.rep('-', 65))
call('HSETNX', leased, '', string.rep('-', 65))
call('HSETNX', meta, 'due', 'none')
set_pause(ARGV[1])
call('HSET', meta, 'gate', 'open') -- overwrites any invalid value: a version is only completed after its gates were sealed
return 'open'
