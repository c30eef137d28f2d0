"""Acme's wrapper of the library, which its programs import."""

from acme_jobs.house import InvoiceMail, Queue, StockCount, handles, new_worker, submit

__all__ = ["InvoiceMail", "Queue", "StockCount", "handles", "new_worker", "submit"]
