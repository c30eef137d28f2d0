#!lua flags=allow-oom
-- complete: leased -> succeeded, for each job that its group still holds
-- KEYS     jobs leased expiry lease_members history succeeded results
-- ARGV     now, 0 deleted at once | 1 kept, then per group: group, number of ids, ids, (if kept) as many results:
--          '' none | '=' result
-- uses     clock groups
-- returns  positions (from 0, over all ids) of the refused jobs, and (if kept) the ids of those refused because their record
--          is gone: their leases end
local kept = ARGV[2] == '1'
local now = kept and string.format('%.0f', math.floor(clock(ARGV[1]) / 1000))
local past = call('EXISTS', history) == 1
local refused, lost, place, at = {}, {}, 0, 3
while at < #ARGV do
    local group, count = ARGV[at], tonumber(ARGV[at + 1])
    local first, last = at + 2, at + 1 + count
    local holders = call('HMGET', leased, unpack(ARGV, first, last))
    local mine = ARGV -- the ids that are held: nearly always all, and then a slice of ARGV is used without a copy
    for k = 1, count do
        if holders[k] ~= group then
            refused[#refused + 1] = place + k - 1
            mine = nil
        end
    end
    if not mine then
        mine = {}
        for k = 1, count do
            if holders[k] == group then mine[#mine + 1] = ARGV[at + 1 + k] end
        end
        first, last = 1, #mine
    end
    if last >= first then
        if kept then
            local scores, values, records = {}, {}, call('HMGET', jobs, unpack(ARGV, at + 2, at + 1 + count))
            for k = 1, count do
                local id, result = ARGV[at + 1 + k], ARGV[at + 1 + count + k]
                if holders[k] == group and not records[k] then
                    refused[#refused + 1] = place + k - 1
                    lost[#lost + 1] = id
                elseif holders[k] == group then
                    scores[#scores + 1], scores[#scores + 2] = now, id
                    if result ~= '' then values[#values + 1], values[#values + 2] = id, string.sub(result, 2) end
                end
            end
            if #scores > 0 then call('ZADD', succeeded, unpack(scores)) end
            if #values > 0 then call('HSET', results, unpack(values)) end
        else
            -- The record goes first: if its key is of a wrong type, the lease is kept.
            call('HDEL', jobs, unpack(mine, first, last))
            if past then call('HDEL', history, unpack(mine, first, last)) end
        end
        reduce_held(group, call('HDEL', leased, unpack(mine, first, last)))
    end
    place = place + count
    at = at + 2 + count + (kept and count or 0)
end
return {refused, lost}
