"""What the web application and the worker share: where jobs are kept, and what they are called."""

from __future__ import annotations

import os

from scheduler import Producer, backend_from_url

WELCOME_MAIL = "mail.welcome"

# Nothing is connected yet: each process, also one that a server forks later, connects when it first needs to.
backend = backend_from_url(os.environ.get("SIGNUP_JOBS", "sqlite:///signup.db"))
producer = Producer(backend)
