#!lua flags=allow-oom
-- restore: jobs in no index -> ready
-- KEYS     meta jobs scheduled waiting ready0 ready1 ready2 ready3 leased history dead succeeded cancelled results
-- ARGV     now, channel, ms when the search of the lists began, ids that were not found in them
-- uses     clock record ready entries wake
-- returns  number of jobs that are ready again, or -1: too many entries were added to the lists meanwhile
local now_ms = math.floor(clock(ARGV[1]) / 1000)
-- The ids that were added to the lists since the search began.
local named = {}
for level = 0, 3 do
    local entries = call('LRANGE', lists[level], -1000, -1)
    local first = #entries == 1000 and #entries[1] > 6 and struct.unpack('>I6', entries[1])
    if first and first >= tonumber(ARGV[3]) then return -1 end
    for _, entry in ipairs(entries) do named[string.sub(entry, 7)] = true end
end
local again, woken = 0, false
for _, id in ipairs(nowhere_else({unpack(ARGV, 4)})) do
    local record = not named[id] and call('HGET', jobs, id)
    if record then
        woken = push(level_of(record), {id}, now_ms) or woken
        again = again + 1
    end
end
if woken then wake(ARGV[2], true) end
return again
