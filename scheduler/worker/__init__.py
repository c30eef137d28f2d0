"""The worker: leases jobs in batches, runs them in a bounded thread pool, records what became of them."""
