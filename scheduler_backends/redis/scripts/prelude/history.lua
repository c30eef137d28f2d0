-- The history of a job that failed or crashed:
--     4 bytes attempts, without the present lease; 4 bytes crashes; 1 byte number of errors + 16 * number of runs
--     per error: 4 bytes length, 8 bytes time, 4 bytes attempt, text
--     per run (written by a later release): 4 bytes length, 8 bytes start, worker
-- At most the newest ten errors and the newest ten runs are kept. read_history returns attempts, crashes, number of errors,
-- number of runs, all errors, all runs; nil if the history is damaged. A damaged history is not overwritten: the next lease
-- call finds the damage.
local function read_history(value)
    if not value or value == '' then return 0, 0, 0, 0, '', '' end
    if #value < 9 then return nil end
    local attempts, crashes, counts = struct.unpack('<I4I4B', value)
    local errors, place, runs_at = counts % 16, 10, 10
    local runs = (counts - errors) / 16
    for k = 1, errors + runs do
        if place + 3 > #value then return nil end
        local size = struct.unpack('<I4', value, place)
        if size < (k <= errors and 12 or 8) then return nil end
        place = place + 4 + size
        if k <= errors then runs_at = place end
    end
    if place ~= #value + 1 or attempts > 2147483647 or crashes > 2147483647 then return nil end
    return attempts, crashes, errors, runs, string.sub(value, 10, runs_at - 1), string.sub(value, runs_at)
end

-- Returns the history after another lease has ended, and its number of attempts; nil if the history is damaged.
local function lease_ended(value, counted, crashed, text, now_us)
    local attempts, crashes, errors, runs, texts, of_runs = read_history(value)
    if not attempts then return nil end
    if text ~= '' then
        texts = texts .. struct.pack('<I4i8I4', #text + 12, now_us, attempts + 1) .. text
        errors = errors + 1
        while errors > 10 do
            texts = string.sub(texts, 5 + struct.unpack('<I4', texts))
            errors = errors - 1
        end
    end
    attempts = attempts + counted
    return struct.pack('<I4I4B', attempts, crashes + crashed, errors + 16 * runs) .. texts .. of_runs, attempts
end

-- Returns the history with attempts and crashes set to 0.
local function reset_history(value)
    return struct.pack('<I4I4', 0, 0) .. string.sub(value, 9)
end
