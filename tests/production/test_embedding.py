"""Backends, producers and workers inside other people's processes: forked, spawned, reloaded, ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
import site
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from production.place import APPLICATIONS, now
from programs import ask, ask_json, wait_until
from servers.ports import bound_socket

SEARCHED = os.pathsep.join(dict.fromkeys([*sys.path, *site.getsitepackages()]))  # for a Python inside another program


def everything(place):
    """All ids of jobs that the store knows."""
    return [
        job.id
        for state in ("ready", "leased", "succeeded", "dead")
        for job in place.backend.list("default", state, limit=2_000).jobs
    ]


def drain(place):
    worker = place.worker("steady:worker", "--burst")
    assert worker.ended() == 0, worker.output


def test_a_worker_in_the_background_ends_in_order_with_its_interpreter(place):
    """Though there is more to do than the grace allows: what has begun is finished, the rest is given back."""
    check_exit(place, "returns", 0)


@pytest.mark.parametrize(("how", "status"), [("raises", 1), ("exits", 3)])
def test_it_does_so_however_the_interpreter_ends(file_place, how, status):
    check_exit(file_place, how, status)


def check_exit(place, how, status):
    program = place.python("exits.py", how)
    assert program.ended() == status, program.output
    ids = everything(place)
    states = place.states(ids)
    assert len(ids) == 200
    assert states.keys() == {"ready", "succeeded"}
    assert states["succeeded"] == len(place.lines())
    assert all(job.attempts == 0 for job in place.backend.list("default", "ready", limit=1_000).jobs)


def test_a_handler_that_does_not_return_keeps_no_interpreter(place):
    """Its job comes back, as that of any process that has died."""
    program = place.python("exits.py", "stuck", GRACE="1")
    program.expect("main ends")
    ended = now()
    assert program.ended() == 0, program.output
    assert now() - ended < 10.0
    states = place.states(everything(place))
    assert states["leased"] == 1
    assert states["succeeded"] == len(place.lines()) - 1


def test_children_forked_while_a_worker_is_at_work_use_connections_of_their_own(place):
    """Guarantee 27, as uWSGI forks. No worker runs in a child unless it is started there."""
    program = place.python("forks.py", LEASE="60")  # none ends on a loaded machine: each job runs once
    program.expect("children have ended")
    wait_until(lambda: len(place.lines()) >= 500)
    (place.folder / "go").touch()
    assert program.ended() == 0, program.output
    ids = everything(place)
    assert len(ids) == 500
    assert place.states(ids) == {"succeeded": 500}
    assert place.runs() == dict.fromkeys(ids, 1)


def test_children_forked_without_pythons_hooks_use_connections_of_their_own(place):
    """Guarantee 27. No answer is about another job, and all that was acknowledged is stored, once."""
    program = place.python("c_forks.py")
    assert program.ended() == 0, program.output
    ids = json.loads(program.lines[-1])
    assert len(set(ids)) == len(ids) == 5 * 60, program.output
    assert place.states(ids) == {"ready": 300}
    assert len(everything(place)) == 301


def test_web_processes_of_uwsgi_share_nothing(place):
    """Guarantee 27. It forks in C, after the application and its connected producer are there."""
    uwsgi = shutil.which("pyuwsgi", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uwsgi is None:
        pytest.skip("pyuwsgi is not installed")
    options = ["--master", "--processes", "4", "--need-app", "--die-on-term", "--http-socket", "127.0.0.1:0"]
    web = place.program(uwsgi, *options, "--wsgi-file", "wsgi.py", PYTHONHOME=sys.base_prefix, PYTHONPATH=SEARCHED)
    (match,) = web.expect(r"bound to TCP address (127\.0\.0\.1:\d+)")
    web.expect(r"spawned uWSGI worker 4")
    with ThreadPoolExecutor(4) as threads:
        answers = [text.split() for _, text in threads.map(lambda _: ask(f"http://{match[1]}/"), range(1_000))]
    ids = [id for _, id in answers]
    assert len(set(ids)) == 1_000
    assert len({process for process, _ in answers}) > 1
    states = [place.states(ids[start : start + 100]) for start in range(0, 1_000, 100)]
    assert states == [{"ready": 100}] * 10
    assert len(everything(place)) == 1_001
    web.signal(signal.SIGTERM)
    web.ended()


def test_processes_that_multiprocessing_forks_enqueue(place):
    check_processes(place, "fork")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_multiprocessing_starts_otherwise_enqueue(file_place, method):
    """Each makes a backend of its own, from the URL."""
    check_processes(file_place, method)


def check_processes(place, method):
    program = place.python("multi.py", method)
    assert program.ended() == 0, program.output
    drain(place)
    assert place.states(everything(place)) == {"succeeded": 50}
    assert len(place.lines()) == 50


def test_web_processes_forked_by_gunicorn_share_nothing(place):
    """--preload: the application, and with it the connected producer, is there before the fork."""
    pytest.importorskip("gunicorn")
    web = place.python("-m", "gunicorn", "--preload", "--workers", "2", "--bind", "127.0.0.1:0", "wsgi:application")
    (match,) = web.expect(r"Listening at: (http://127\.0\.0\.1:\d+)")
    worker = place.worker("steady:worker")
    answers = [ask(f"{match[1]}/")[1].split() for _ in range(40)]
    ids = [id for _, id in answers]
    place.until_finished(*ids)
    web.signal(signal.SIGTERM)
    assert web.ended() == 0, web.output
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0, worker.output
    assert len(set(ids)) == 40
    assert web.process.pid not in {int(process) for process, _ in answers}
    assert place.states(everything(place)) == {"succeeded": 41}
    assert len(place.lines()) == 41


def test_a_worker_inside_a_flask_application_is_ended_in_order_by_the_reloader(file_place):
    pytest.importorskip("flask")
    place = file_place
    folder = shutil.copytree(APPLICATIONS, place.folder / "applications")
    web = place.python("-m", "flask", "--app", "reloaded", "run", "--debug", "--port", "0", folder=folder)
    (match,) = web.expect(r"Running on (http://127\.0\.0\.1:\d+)")
    web.expect("Debugger PIN")  # the second process serves
    ids = [ask(f"{match[1]}/jobs", it="now")[1] for _ in range(50)]
    first = place.until_line("began", ids[0]).process
    source = folder / "reloaded.py"
    web.expect_after(lambda: change(source), "Detected change")
    web.expect("Debugger PIN", times=2)
    more = [ask(f"{match[1]}/jobs", it="now")[1] for _ in range(10)]
    place.until_finished(*ids, *more)
    assert place.states([*ids, *more]) == {"succeeded": 60}
    assert place.runs() == dict.fromkeys([*ids, *more], 1)
    assert place.until_line("began", more[0]).process != first
    web.signal(signal.SIGTERM)


def test_a_django_application_enqueues_before_and_after_its_reloader_restarted_it(file_place):
    pytest.importorskip("django")
    place = file_place
    folder = shutil.copytree(APPLICATIONS.parents[2] / "examples" / "django_shop", place.folder / "shop")
    with bound_socket(0) as free:
        port = free.getsockname()[1]
    environment = {"SHOP_JOBS": place.url, "SHOP_FOLDER": str(place.folder)}
    migrate = place.python("manage.py", "migrate", "--verbosity", "0", folder=folder, **environment)
    assert migrate.ended() == 0, migrate.output
    web = place.python("manage.py", "runserver", f"127.0.0.1:{port}", folder=folder, **environment)
    web.expect(r"Starting (WSGI )?development server")
    url = f"http://127.0.0.1:{port}/orders"
    wait_until(lambda: ask_json(f"{url}/99")[0] == 404)
    assert ask_json(url, article="before")[0] == 201
    views = folder / "shop" / "views.py"
    web.expect_after(lambda: change(views), "changed, reloading")
    web.expect(r"Starting (WSGI )?development server", times=2)
    wait_until(lambda: ask_json(f"{url}/99")[0] == 404)
    assert ask_json(url, article="after")[0] == 201
    assert sum(place.backend.stats()[0].counts.values()) == 2
    web.signal(signal.SIGTERM)


def change(source):
    """Change a file for a reloader, which may overlook it: what changes before its first look is no change to it."""
    source.write_text(source.read_text() + "\n# changed\n")
