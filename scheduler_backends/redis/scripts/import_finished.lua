#!lua
-- import_finished: stores finished jobs of another version unchanged; a job that is stored here already is kept
-- KEYS     meta jobs history dead succeeded cancelled results
-- ARGV     per job: id, state, finished ms, record, history, result ('' none | '=' result)
-- uses
-- returns  1 | 0 the gate is not open
if call('HGET', meta, 'gate') ~= 'open' then return 0 end
local sorted = {dead = dead, succeeded = succeeded, cancelled = cancelled}
for k = 1, #ARGV, 6 do
    local id, state, finished, record, past, result = unpack(ARGV, k, k + 5)
    if call('HEXISTS', jobs, id) == 0 then
        call('ZADD', sorted[state], finished, id)
        if past ~= '' then call('HSET', history, id, past) end
        if result ~= '' then call('HSET', results, id, string.sub(result, 2)) end
        call('HSET', jobs, id, record)
    end
end
return 1
