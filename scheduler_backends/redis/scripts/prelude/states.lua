-- The sorted sets, by the state of their jobs. A job in two of them has the state that comes first in STATES.
local STATES = {'scheduled', 'retry_wait', 'dead', 'succeeded', 'cancelled'}
local sorted = {scheduled = scheduled, retry_wait = waiting, dead = dead, succeeded = succeeded, cancelled = cancelled}
