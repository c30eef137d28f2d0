#!lua flags=allow-oom
-- change: takes note that the layout of a queue has changed, or that one of its gates is about to open
-- KEYS     changes
-- ARGV     queue
-- uses
-- returns  the number of this change
local last = call('ZRANGE', changes, 0, 0, 'REV', 'WITHSCORES')
local number = (last[2] or 0) + 1
call('ZADD', changes, number, ARGV[1])
return number
