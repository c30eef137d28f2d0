-- Notifies waiters that a ready list is no longer empty ('r'), that a job is due earlier than expected ('d'), or both. The
-- message names the partition by its meta key. pcall: an ACL may forbid the channel, and a lost message only costs a
-- fallback poll.
local function wake(channel, ready, sooner)
    redis.pcall('PUBLISH', channel, (ready and 'r' or '') .. (sooner and 'd' or '') .. ' ' .. meta)
end
