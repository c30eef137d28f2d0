-- Notifies waiters that a ready list is no longer empty ('r'), or that a job is due earlier than expected ('d'), or both, and
-- of which partition, by its meta key. pcall: an ACL may lack the channel, and a lost message costs one fallback poll only.
local function wake(channel, ready, sooner)
    redis.pcall('PUBLISH', channel, (ready and 'r' or '') .. (sooner and 'd' or '') .. ' ' .. meta)
end
