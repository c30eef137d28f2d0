"""A web application with a worker inside, under Flask's reloader, as somebody may write it for development."""

from __future__ import annotations

import os

import steady
from flask import Flask

from scheduler import Producer

app = Flask(__name__)
producer = Producer(steady.backend)
if os.environ.get("WERKZEUG_RUN_MAIN"):  # the reloader's own process runs no worker
    steady.worker.start()


@app.post("/jobs")
def enqueue() -> str:
    return producer.enqueue("quick").job.id
