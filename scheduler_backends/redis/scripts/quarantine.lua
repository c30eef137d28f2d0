#!lua flags=allow-oom
-- quarantine: leased -> dead for jobs that cannot be read, leased -> retry_wait for those of a later release, without an
-- attempt. Records and histories stay unchanged for a release that can read them.
-- KEYS     meta jobs waiting leased expiry lease_members history dead succeeded cancelled
-- ARGV     now, channel, group, 1 dead jobs are kept | 0 deleted at once, then per job: id, delay ms ('' = dead)
-- uses     clock record due wake groups
-- returns  number of leases ended
local now_ms = math.floor(clock(ARGV[1]) / 1000)
local group, kept, gone, sooner = ARGV[3], ARGV[4] == '1', 0, false
for k = 5, #ARGV, 2 do
    local id, delay = ARGV[k], ARGV[k + 1]
    if call('HGET', leased, id) == group then
        -- A job with a damaged level may have been cancelled while its entry stayed in the list.
        if not (call('ZSCORE', cancelled, id) or call('ZSCORE', dead, id) or call('ZSCORE', succeeded, id)) then
            if delay ~= '' then
                call('ZADD', waiting, score_of(level_of(call('HGET', jobs, id) or ''), now_ms + delay), id)
                sooner = expect(now_ms + delay) or sooner
            elseif kept then
                call('ZADD', dead, whole(now_ms), id)
            else
                call('HDEL', jobs, id)
                call('HDEL', history, id)
            end
        end
        call('HDEL', leased, id)
        reduce_held(group, 1)
        gone = gone + 1
    end
end
if sooner then wake(ARGV[2], false, true) end
return gone
