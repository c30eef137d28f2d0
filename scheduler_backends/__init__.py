"""The stores that come with `scheduler`, each in a room of its own behind the contract of `scheduler.backend`."""
