-- The present moment in microseconds: the caller's (only tests give one), else this server's.
local function clock(given)
    if given ~= '' then return tonumber(given) end
    local time = call('TIME')
    return time[1] * 1000000 + time[2]
end
