-- Returns the expiry of the lease of a job, which may be in a part of its group.
local function expiry_of(group, id)
    for _, part in ipairs(call('HEXISTS', lease_members, 'p' .. group) == 1 and parts_of(group) or {}) do
        for _, member in ipairs(members(call('HGET', lease_members, part))) do
            if member == id then return call('ZSCORE', expiry, part) end
        end
    end
    return call('ZSCORE', expiry, group)
end

-- Returns the present state of a job: state, record, history, the time that belongs to the state in ms (due, lease expiry or
-- finish), worker, result; false if there is no such job. A job in no index is ready.
local function view(id)
    local record = call('HGET', jobs, id)
    if not record then return false end
    local past = call('HGET', history, id) or ''
    local group = call('HGET', leased, id)
    if group then
        local worker = call('HGET', lease_members, 'w' .. group) or ''
        return {'leased', record, past, expiry_of(group, id) or '0', worker, ''}
    end
    for _, state in ipairs(STATES) do
        local score = call('ZSCORE', sorted[state], id)
        if score then
            local result = state == 'succeeded' and call('HGET', results, id)
            if state == 'scheduled' or state == 'retry_wait' then score = whole(score % SPAN) end
            return {state, record, past, score, '', result and '=' .. result or ''}
        end
    end
    return {'ready', record, past, '', '', ''}
end
