-- meta.closing: the completions of this version under way, and until when each counts: owner and ms in turn. Each owner sets
-- and ends its own. While there is one, no dead job can be requeued. One whose owner died ends by itself.
local function closers(now_ms)
    local marks = {}
    for owner, until_ms in string.gmatch(call('HGET', meta, 'closing') or '', '(%x+) (%d+)') do
        if tonumber(until_ms) > now_ms then marks[owner] = until_ms end
    end
    return marks
end
