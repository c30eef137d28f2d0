local function expiry_of(group, id)
    for _, part in ipairs(call('HEXISTS', lease_members, 'p' .. group) == 1 and parts_of(group) or {}) do
        for _, member in ipairs(members(call('HGET', lease_members, part))) do
            if member == id then return call('ZSCORE', expiry, part) end
        end
    end
    return call('ZSCORE', expiry, group)
end

-- A job as it is now: state, record, history, the moment that belongs to the state in ms (due, lease expiry, finish),
-- worker, result. State follows from membership; a job that is nowhere else is ready. false = no such job.
local function view(id)
    local record = call('HGET', jobs, id)
    if not record then return false end
    local past = call('HGET', history, id) or ''
    local group = call('HGET', leased, id)
    if group then
        local worker = call('HGET', lease_members, 'w' .. group) or ''
        return {'leased', record, past, expiry_of(group, id) or '0', worker, ''}
    end
    local due = call('ZSCORE', scheduled, id)
    if due then return {'scheduled', record, past, whole(due % SPAN), '', ''} end
    due = call('ZSCORE', waiting, id)
    if due then return {'retry_wait', record, past, whole(due % SPAN), '', ''} end
    local finished = call('ZSCORE', dead, id)
    if finished then return {'dead', record, past, finished, '', ''} end
    finished = call('ZSCORE', succeeded, id)
    if finished then
        local result = call('HGET', results, id)
        return {'succeeded', record, past, finished, '', result and '=' .. result or ''}
    end
    finished = call('ZSCORE', cancelled, id)
    if finished then return {'cancelled', record, past, finished, '', ''} end
    return {'ready', record, past, '', '', ''}
end
