"""The stores that come with `scheduler`, one package each, behind the contract of `scheduler.backend`."""
