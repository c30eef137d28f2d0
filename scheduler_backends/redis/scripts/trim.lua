#!lua flags=allow-oom
-- trim: deletes finished jobs older than their retention
-- KEYS     jobs scheduled waiting ready0 ready1 ready2 ready3 leased history dead succeeded cancelled results
-- ARGV     now, limit, retention in ms of succeeded, dead, cancelled
-- uses     clock ready entries
-- returns  number of entries removed, 0 | 1 there is more to trim
local now_ms = math.floor(clock(ARGV[1]) / 1000)
local left, gone, more = tonumber(ARGV[2]), 0, 0
for k, source in ipairs({succeeded, dead, cancelled}) do
    local until_ms = string.format('%.0f', now_ms - ARGV[2 + k])
    local ids = left > 0 and call('ZRANGEBYSCORE', source, '-inf', until_ms, 'LIMIT', 0, left) or {}
    if #ids > 0 then
        local mine, others, unsure = check_entries(source, ids)
        delete(mine)
        call('ZREM', source, unpack(ids))
        for _, id in ipairs(unsure) do -- examined again after another retention period
            call('ZADD', source, string.format('%.0f', now_ms), id)
        end
        left = left - #ids
        gone = gone + #mine + #others
    end
    if left < 1 and call('ZCOUNT', source, '-inf', until_ms) > 0 then more = 1 end
end
return {gone, more}
