-- Stores a pause or resume of the queue, each of which has a number, unless a newer one is stored already.
local function set_pause(pause)
    local present = call('HGET', meta, 'pause') or '0:0'
    if tonumber(string.match(pause, '^%d+') or '0') > tonumber(string.match(present, '^%d+') or '0') then
        call('HSET', meta, 'pause', pause)
    end
end
