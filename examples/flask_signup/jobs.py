"""Shared by the web application and the worker: the store and the names of the job types."""

from __future__ import annotations

import os

from scheduler import Producer, backend_from_url

WELCOME_MAIL = "mail.welcome"

# This does not connect yet. Each process connects when it first uses the backend, also after a fork.
backend = backend_from_url(os.environ.get("SIGNUP_JOBS", "sqlite:///signup.db"))
producer = Producer(backend)
