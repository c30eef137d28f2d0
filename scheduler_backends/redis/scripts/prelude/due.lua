-- A score in scheduled and waiting is level * SPAN + the due millisecond, so each level is a range of scores. meta.due
-- is a lower bound of the next due millisecond, or 'none' if no job is waiting. An idle poll reads nothing else.
local SPAN = 281474976710656 -- 2^48 ms reach past the year 9999, and 4 * 2^48 is exact in a score

local function whole(number)
    return string.format('%.0f', number) -- Lua's own conversion keeps only 14 digits
end

local function score_of(level, ms)
    return whole(level * SPAN + math.max(ms, 0))
end

-- Returns the value of meta.due as a number; nil for 'none' and for invalid values.
local function bound_of(value)
    local ms = value and tonumber(value)
    return ms and ms >= 0 and ms < SPAN and ms or nil
end

-- Lowers meta.due to ms, the due time of a job. Returns whether it was later before, or unknown.
local function expect(ms)
    local bound = bound_of(call('HGET', meta, 'due'))
    if bound and bound <= ms then return false end
    call('HSET', meta, 'due', whole(ms))
    return true
end
