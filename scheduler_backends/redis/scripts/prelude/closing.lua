-- meta.closing: the running completions of this version, as owner and expiry in ms, alternating. While there is one, requeue
-- refuses dead jobs. Each owner sets and removes its own entry. The entry of an owner that died expires.
-- Returns the expiry by owner, without expired entries.
local function active_completions(now_ms)
    local marks = {}
    for owner, until_ms in string.gmatch(call('HGET', meta, 'closing') or '', '(%x+) (%d+)') do
        if tonumber(until_ms) > now_ms then marks[owner] = until_ms end
    end
    return marks
end
