#!lua flags=allow-oom
-- change: gives a queue the next change number, for a change of its layout or before its gates are opened
-- KEYS     changes
-- ARGV     queue
-- uses
-- returns  that number
local last = call('ZRANGE', changes, 0, 0, 'REV', 'WITHSCORES')
local number = (last[2] or 0) + 1
call('ZADD', changes, number, ARGV[1])
return number
