"""A program of Acme: it enqueues mails with invoices, and a stock count."""

from __future__ import annotations

from acme_jobs import InvoiceMail, StockCount, submit

for customer, invoice in ((7, 1001), (8, 1002)):
    submit(InvoiceMail(customer=customer, invoice=invoice), request=f"billing/{invoice}")
submit(StockCount(room="cellar"), delay=1.0, request="billing")
