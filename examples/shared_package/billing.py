"""A program of Acme's: it bills, and has the mails sent and the stock counted."""

from __future__ import annotations

from acme_jobs import InvoiceMail, StockCount, submit

for customer, invoice in ((7, 1001), (8, 1002)):
    submit(InvoiceMail(customer=customer, invoice=invoice), request=f"billing/{invoice}")
submit(StockCount(room="cellar"), delay=1.0, request="billing")
