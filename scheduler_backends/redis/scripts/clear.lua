#!lua flags=allow-oom
-- clear: removes the remaining keys of an empty, sealed partition, except for its gate
-- KEYS     meta jobs ready0 ready1 ready2 ready3 tombstones leased history cancel_marks successors notes
-- ARGV
-- uses     ready
-- returns  1 cleared | 0 not sealed and empty
if call('HGET', meta, 'gate') ~= 'sealed' or call('HLEN', jobs) > 1 or call('HLEN', leased) > 1 then return 0 end
call('UNLINK', jobs, leased, tombstones, history, cancel_marks, successors, notes, ready0, ready1, ready2, ready3)
call('HDEL', meta, 'due', 'tombstones', 'pause', 'closing', 'repair')
return 1
