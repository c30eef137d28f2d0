#!lua
-- open_gate: lets jobs into a partition that has never been opened; one that is sealed stays sealed
-- KEYS     meta jobs leased
-- ARGV     pause of the queue: its number, ':', 1 | 0
-- uses     pause
-- returns  the gate
if call('HGET', meta, 'gate') == 'sealed' then return 'sealed' end
-- A value of 65 bytes keeps a small hash from being a listpack, which is searched from end to end.
call('HSETNX', jobs, '', string.rep('-', 65))
call('HSETNX', leased, '', string.rep('-', 65))
call('HSETNX', meta, 'due', 'none')
set_pause(ARGV[1])
call('HSET', meta, 'gate', 'open') -- over what is neither: no version is completed before its gates are sealed
return 'open'
