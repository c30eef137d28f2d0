"""The sign-up form, over HTTP, its mails written by a real worker process."""

from __future__ import annotations

import signal

import pytest

from programs import ask, wait_until

pytest.importorskip("flask")


def test_a_signed_up_address_gets_one_mail(example, jobs_url, tmp_path):
    web = example("flask_signup", "-m", "flask", "--app", "web", "run", "--port", "0", SIGNUP_JOBS=jobs_url)
    (match,) = web.expect(r"Running on (http://127\.0\.0\.1:\d+)")
    url, outbox = match[1], tmp_path / "flask_signup" / "outbox"
    assert "<form" in ask(f"{url}/")[1]
    for address in ("ada@example.org", "ada@example.org", "<b>@example.org"):
        status, body = ask(f"{url}/signup", address=address)
        assert status == 200
        assert "on its way" in body
        assert "<b>" not in body
    assert ask(f"{url}/signup", address="nobody")[0] == 400

    worker = example("flask_signup", "-m", "scheduler.cli", "worker", "worker:worker", SIGNUP_JOBS=jobs_url)
    wait_until(lambda: len(list(outbox.glob("*.eml"))) == 2)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert sum("To: ada@example.org" in mail.read_text() for mail in outbox.glob("*.eml")) == 1
