-- What happened to a job that failed or crashed: 4 bytes attempts (leases counted so far, not the present one), 4 bytes
-- crashes, 1 byte number of errors, then each error: 4 bytes length, 8 bytes moment, 4 bytes attempt, text. Newest ten.
local function read_history(value)
    if not value or #value < 9 then return 0, 0, 0, '' end
    local attempts, crashes, errors = struct.unpack('<I4I4B', value)
    return attempts, crashes, errors, string.sub(value, 10)
end

local function write_history(attempts, crashes, errors, texts)
    return struct.pack('<I4I4B', attempts, crashes, errors) .. texts
end

-- The history after one more lease has ended, and its number of attempts.
local function lease_ended(value, counted, crashed, text, now_us)
    local attempts, crashes, errors, texts = read_history(value)
    if text ~= '' then
        texts = texts .. struct.pack('<I4i8I4', #text + 12, now_us, attempts + 1) .. text
        errors = errors + 1
        if errors > 10 then
            texts = string.sub(texts, 5 + struct.unpack('<I4', texts))
            errors = 10
        end
    end
    return write_history(attempts + counted, crashes + crashed, errors, texts), attempts + counted
end
