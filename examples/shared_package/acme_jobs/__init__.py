"""How Acme runs jobs: what its programs import instead of the library."""

from acme_jobs.house import InvoiceMail, Queue, StockCount, handles, new_worker, submit

__all__ = ["InvoiceMail", "Queue", "StockCount", "handles", "new_worker", "submit"]
