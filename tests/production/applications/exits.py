"""A program whose main thread ends while its worker is at work in the background: `exits.py HOW`."""

from __future__ import annotations

import sys

import steady

from scheduler import Producer

worker = steady.worker
how = sys.argv[1]
producer = Producer(steady.backend)
for _ in range(200):
    producer.enqueue("quick")
if how == "stuck":
    producer.enqueue("stuck", priority=0, max_retries=1, timeout=60)
worker.start()
while worker.health.held == 0:
    steady.never.wait(0.01)
steady.never.wait(0.1)
print("main ends", flush=True)
if how == "raises":
    raise ValueError("the end of the main thread")
if how == "exits":
    sys.exit(3)
