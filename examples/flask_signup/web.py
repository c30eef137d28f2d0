"""The web application: a form, and a response before the mail is sent."""

from __future__ import annotations

from flask import Flask, abort, render_template_string, request
from jobs import WELCOME_MAIL, producer
from werkzeug.wrappers import Response

from scheduler import BackendUnavailable

app = Flask(__name__)

FORM = """<!doctype html><title>Sign up</title>
<form method="post" action="/signup"><input name="address" type="email" required><button>Sign up</button></form>"""
THANKS = """<!doctype html><title>Thank you</title><p>A mail to {{ address }} is on its way."""


@app.get("/")
def form() -> str:
    return FORM


@app.post("/signup")
def signup() -> Response | str | tuple[str, int]:
    address = request.form.get("address", "").strip()
    if "@" not in address:
        abort(400, "an address has an @")
    try:
        # The key makes a second click harmless: one mail an address, for as long as the job is kept.
        producer.enqueue(WELCOME_MAIL, {"to": address}, idempotency_key=address)
    except BackendUnavailable:
        return "Please try again in a minute.", 503
    return render_template_string(THANKS, address=address)
