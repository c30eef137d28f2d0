-- meta.closing: who completes this version now, and until when that counts: owner and ms in turn. Each owner sets and ends a
-- mark of its own; while one is there no dead job comes back to life. An owner that died is forgotten after a while.
local function closers(now_ms)
    local marks = {}
    for owner, until_ms in string.gmatch(call('HGET', meta, 'closing') or '', '(%x+) (%d+)') do
        if tonumber(until_ms) > now_ms then marks[owner] = until_ms end
    end
    return marks
end
