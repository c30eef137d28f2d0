-- The fixed head of a record (codec.py): 8 bytes created, 8 bytes run_at, format, level, 4 bytes max_retries, 8 bytes
-- nonce. These places are the same in every format. A damaged record may be too short: the values are then those of an
-- ordinary job.
local function level_of(record)
    return math.min(string.byte(record, 18) or 2, 3)
end

local function max_retries_of(record)
    if #record < 22 then return 0 end
    return (struct.unpack('<I4', record, 19))
end

-- Whether it has a level: a record of any format that is long enough.
local function is_sound(record)
    local format = string.byte(record, 17) or 0
    return #record >= 30 and format > 0 and format < 32 and string.byte(record, 18) < 4
end

-- Whether a later release has written it: such a job is left to that release, and its crash is not counted.
local function is_later(record)
    local format = string.byte(record, 17) or 0
    return format > 1 and format < 32
end

-- Adds an id to those of its record's level.
local function add_ready(ready, id, record)
    local level = level_of(record)
    ready[level] = ready[level] or {}
    table.insert(ready[level], id)
end
