#!lua flags=allow-oom
-- promote_due: scheduled | retry_wait -> ready
-- KEYS     meta scheduled waiting ready0 ready1 ready2 ready3
-- ARGV     now, channel, limit
-- uses     clock ready due wake
-- returns  number moved, us until the next job is due or -1, number of jobs still due
local now = clock(ARGV[1])
local now_ms = math.floor(now / 1000)
local bound = call('HGET', meta, 'due')
if bound == 'none' then return {0, -1, 0} end
bound = bound_of(bound)
if bound and bound > now_ms then return {0, bound * 1000 - now, 0} end

local left, moved, woken, next_due, more = tonumber(ARGV[3]), 0, false, nil, 0
local sources = {} -- usually one of them is empty
for _, source in ipairs({scheduled, waiting}) do
    if call('EXISTS', source) == 1 then sources[#sources + 1] = source end
end
for level = 0, 3 do
    local from, to = level == 0 and '-inf' or whole(level * SPAN), whole(level * SPAN + now_ms)
    for _, source in ipairs(sources) do
        local ids = left > 0 and call('ZRANGEBYSCORE', source, from, to, 'LIMIT', 0, left) or {}
        if #ids > 0 then
            woken = push(level, ids, now_ms) or woken
            call('ZREM', source, unpack(ids))
            left = left - #ids
            moved = moved + #ids
        end
        local head = call('ZRANGEBYSCORE', source, from, '(' .. whole((level + 1) * SPAN), 'WITHSCORES', 'LIMIT', 0, 1)
        if head[1] then
            local due = head[2] - level * SPAN
            if not next_due or due < next_due then next_due = due end
            if due <= now_ms then more = more + call('ZCOUNT', source, from, to) end
        end
    end
end
call('HSET', meta, 'due', next_due and whole(next_due) or 'none')
if woken then wake(ARGV[2], true) end
return {moved, next_due and math.max(next_due * 1000 - now, 0) or -1, more}
