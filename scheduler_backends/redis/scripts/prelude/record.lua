-- The fixed head of a record (codec.py): 8 bytes created, 8 bytes run_at, format, level, 4 bytes max_retries, 8 bytes
-- nonce. Records damaged by hand may be too short: the answers are then those of an ordinary job.
local function level_of(record)
    return math.min(string.byte(record, 18) or 2, 3)
end

local function max_retries_of(record)
    if #record < 22 then return 0 end
    return (struct.unpack('<I4', record, 19))
end
