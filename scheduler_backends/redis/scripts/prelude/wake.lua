-- Tells waiters that a ready list is no longer empty, or that a job is due sooner than thought, and where: 'r', 'd' or both,
-- then the partition's meta. pcall: an ACL may lack the channel, and a lost message costs one fallback poll only.
local function wake(channel, ready, sooner)
    redis.pcall('PUBLISH', channel, (ready and 'r' or '') .. (sooner and 'd' or '') .. ' ' .. meta)
end
