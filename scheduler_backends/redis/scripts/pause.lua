#!lua flags=allow-oom
-- pause: pauses or resumes one partition
-- KEYS     meta
-- ARGV     pause of the queue: its number, ':', 1 | 0; channel
-- uses     pause wake
-- returns  1
set_pause(ARGV[1])
if string.sub(ARGV[1], -1) == '0' then wake(ARGV[2], true) end
return 1
