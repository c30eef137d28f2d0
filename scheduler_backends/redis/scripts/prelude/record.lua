-- The head of a record (records.py): 8 bytes created, 8 bytes run_at, 1 byte format, 1 byte level and flag, 4 bytes
-- max_retries, 8 bytes nonce. It is the same in every format. For a damaged record that is too short, these functions return
-- default values.
local function level_of(record)
    return (string.byte(record, 18) or 2) % 4
end

local function max_retries_of(record)
    if #record < 22 then return 0 end
    return (struct.unpack('<I4', record, 19))
end

-- Returns whether a record of any format has a valid level. The level is below 4, the flag is 4.
local function is_sound(record)
    local format = string.byte(record, 17) or 0
    return #record >= 30 and format > 0 and format < 32 and string.byte(record, 18) < 8
end

-- Returns whether a record needs a later release than the caller's, which supports the options with these tags. The crash of
-- such a job is not counted. Options: 2 bytes total size, then per option 1 byte tag, 2 bytes size, value.
local function is_later(record, tags)
    local format = string.byte(record, 17) or 0
    if format ~= 2 or #record < 42 or string.byte(record, 18) < 4 then return format > 2 and format < 32 end
    local place, last = 43, 42 + struct.unpack('<I2', record, 41)
    while place + 2 <= last and last <= #record do
        local tag, size = struct.unpack('<BI2', record, place)
        if tag < 128 and not string.find(tags, string.char(tag), 1, true) then return true end
        place = place + 3 + size
    end
    return false
end

-- Adds an id to *ready*, lists of ids by level.
local function add_ready(ready, id, record)
    local level = level_of(record)
    ready[level] = ready[level] or {}
    table.insert(ready[level], id)
end
