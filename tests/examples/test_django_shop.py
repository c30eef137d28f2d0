"""The shop, over HTTP, its orders confirmed by a real worker process."""

from __future__ import annotations

import signal
import sqlite3

import pytest

from programs import ask_json, wait_until
from servers.ports import bound_socket

pytest.importorskip("django")


@pytest.fixture
def shop(example, jobs_url, tmp_path):
    """Starts a command of manage.py on a database of its own."""

    def start(*arguments):
        return example("django_shop", "manage.py", *arguments, SHOP_JOBS=jobs_url, SHOP_FOLDER=str(tmp_path))

    migrate = start("migrate", "--verbosity", "0")
    assert migrate.ended() == 0, migrate.output
    return start


def test_an_order_is_confirmed_if_and_only_if_it_was_committed(shop, tmp_path):
    with bound_socket(0) as free:  # Django tells the port that it was given, so 0 would not say which it got
        port = free.getsockname()[1]
    web = shop("runserver", "--noreload", f"127.0.0.1:{port}")
    web.expect(r"Starting (WSGI )?development server")
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: ask_json(f"{url}/orders/99")[0] == 404)
    placed = [ask_json(f"{url}/orders", article=f"article {number}") for number in range(3)]
    assert [status for status, _ in placed] == [201] * 3
    assert ask_json(f"{url}/orders", article="nothing", cancel="yes")[0] == 409

    worker = shop("run_worker")
    for _, order in placed:
        wait_until(lambda order=order: ask_json(f"{url}/orders/{order['order']}")[1].get("confirmed"))
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert "Stopped: 3 outcomes" in worker.output
    with sqlite3.connect(tmp_path / "shop.db") as database:
        assert database.execute("SELECT count(*) FROM shop_order").fetchone() == (3,)
    database.close()
