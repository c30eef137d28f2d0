-- Tells waiters that there is work, or work sooner than thought. pcall: an ACL may lack the channel, and a lost message
-- costs one fallback poll only.
local function wake(channel)
    redis.pcall('PUBLISH', channel, 'news')
end
