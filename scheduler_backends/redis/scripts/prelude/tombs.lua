-- A job cancelled while ready leaves its entry in the list, dead: tombs counts those by level and id. Dead entries of
-- an id always stand before its live one, and no list begins with a dead entry (so "not empty" means "has a job").

-- Whether the entry about to be taken is a dead one; it is counted off then.
local function is_dead(level, id)
    local field = level .. ':' .. id
    if not call('HGET', tombs, field) then return false end
    if call('HINCRBY', tombs, field, -1) < 1 then call('HDEL', tombs, field) end
    call('HINCRBY', meta, 'tombs', -1)
    return true
end

local function sweep(level)
    while true do
        local entry = call('LINDEX', lists[level], 0)
        if not entry or not is_dead(level, string.sub(entry, 7)) then return end
        call('LPOP', lists[level])
    end
end
