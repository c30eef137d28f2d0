"""Acme's worker: `scheduler worker crew:worker`."""

from __future__ import annotations

from acme_jobs import InvoiceMail, StockCount, handles, new_worker

worker = new_worker()


@handles(worker, InvoiceMail)
def mail_invoice(order: InvoiceMail) -> None:
    print(f"invoice {order.invoice} is mailed to customer {order.customer}", flush=True)


@handles(worker, StockCount)
def count_stock(order: StockCount) -> None:
    print(f"the {order.room} is counted", flush=True)
