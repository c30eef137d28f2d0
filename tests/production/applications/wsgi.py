"""A web application that has used its producer before the server forks: for gunicorn --preload."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from scheduler import Producer, backend_from_url

producer = Producer(backend_from_url(os.environ["JOBS"]))
producer.enqueue("quick")


def application(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
    id = producer.enqueue("quick").job.id
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {id}".encode()]
