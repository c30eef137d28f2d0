#!lua flags=allow-oom
-- change: numbers a change of a queue's layout, or the opening of one of its gates
-- KEYS     changes
-- ARGV     queue
-- uses
-- returns  the number of this change
local last = call('ZRANGE', changes, 0, 0, 'REV', 'WITHSCORES')
local number = (last[2] or 0) + 1
call('ZADD', changes, number, ARGV[1])
return number
