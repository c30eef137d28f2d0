-- What happened to a job that failed or crashed: 4 bytes attempts (leases counted so far, not the present one), 4 bytes
-- crashes, 1 byte number of errors, then each error: 4 bytes length, 8 bytes moment, 4 bytes attempt, text. Newest ten.
-- nil for a damaged history: it is not overwritten then, and the next lease call finds that it cannot be read.
local function read_history(value)
    if not value or value == '' then return 0, 0, 0, '' end
    if #value < 9 then return nil end
    local attempts, crashes, errors = struct.unpack('<I4I4B', value)
    local place = 10
    for _ = 1, errors do
        if place + 15 > #value then return nil end
        local size = struct.unpack('<I4', value, place)
        if size < 12 then return nil end
        place = place + 4 + size
    end
    if place ~= #value + 1 or attempts > 2147483647 or crashes > 2147483647 then return nil end
    return attempts, crashes, errors, string.sub(value, 10)
end

local function write_history(attempts, crashes, errors, texts)
    return struct.pack('<I4I4B', attempts, crashes, errors) .. texts
end

-- The history after one more lease has ended, and its number of attempts; nil where it is damaged.
local function lease_ended(value, counted, crashed, text, now_us)
    local attempts, crashes, errors, texts = read_history(value)
    if not attempts then return nil end
    if text ~= '' then
        texts = texts .. struct.pack('<I4i8I4', #text + 12, now_us, attempts + 1) .. text
        errors = errors + 1
        while errors > 10 do
            texts = string.sub(texts, 5 + struct.unpack('<I4', texts))
            errors = errors - 1
        end
    end
    return write_history(attempts + counted, crashes + crashed, errors, texts), attempts + counted
end
