-- Returns the present time in microseconds: the caller's if given (only by tests), else this server's.
local function clock(given)
    if given ~= '' then return tonumber(given) end
    local time = call('TIME')
    return time[1] * 1000000 + time[2]
end
