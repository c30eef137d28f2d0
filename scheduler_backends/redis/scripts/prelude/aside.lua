-- Keeps what cannot be served, with the reason, out of everybody's way.
local function set_aside(id, reason, record)
    call('HSET', aside, id, reason .. '\0' .. (record or ''))
end
