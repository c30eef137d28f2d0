"""The proofs find what they are to find: each wrong that a store could do is seen in a doctored ledger."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))

from chaos.ledger import Ledger
from chaos.plan import draw
from chaos.proofs import prove
from scheduler.leases import Completion
from scheduler.producer import Producer
from scheduler.queues import Retention
from scheduler_backends.memory import MemoryBackend

TOKEN, OTHER = "0" * 32, "1" * 32


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def ledger(folder):
    return Ledger(folder, "crew")


@pytest.fixture
def backend():
    """A store with one job, "first/a", which has succeeded."""
    backend = MemoryBackend(retention=Retention(succeeded=60))
    Producer(backend).enqueue("quick", queue="first", id="a")
    (lease,) = backend.lease(["first"], token=TOKEN, worker_id="w", duration=1, limit=1)
    backend.complete([Completion(lease=lease)])
    return backend


def one_good_run(ledger, *, token=TOKEN):
    ledger.write("acknowledged", ids=["first/a"], kinds=["quick"], repeated=False)
    ledger.write("leased", token=token, ids=["first/a"])
    ledger.write("began", id="first/a", attempt=1, run="1")
    ledger.write("ended", id="first/a", run="1", how="returned", cancelled=None)
    ledger.write("settled", verdict="complete", done=[["first/a", token]], refused=[])


def test_a_run_without_fault_is_proved(folder, ledger, backend):
    one_good_run(ledger)
    ledger.write("bye", settled=1, released=0, abandoned=0)
    assert prove(folder, backend) == []


def test_a_lost_job_is_seen(folder, ledger, backend):
    one_good_run(ledger)
    ledger.write("acknowledged", ids=["first/b"], kinds=["quick"], repeated=False)
    assert "lost" in prove(folder, backend)[0]


def test_a_job_that_did_not_end_is_seen(folder, ledger, backend):
    Producer(backend).enqueue("quick", queue="first", id="b")
    ledger.write("acknowledged", ids=["first/b"], kinds=["quick"], repeated=False)
    assert "is ready" in prove(folder, backend)[0]


def test_a_doomed_job_that_succeeded_is_seen(folder, ledger, backend):
    ledger.write("acknowledged", ids=["first/a"], kinds=["doomed"], repeated=False)
    assert "not dead" in prove(folder, backend)[0]


def test_a_refused_token_that_took_effect_is_seen(folder, ledger, backend):
    ledger.write("settled", verdict="complete", done=[], refused=[["first/a", TOKEN]])
    one_good_run(ledger)
    assert any("after it had been refused" in line for line in prove(folder, backend))


def test_a_token_that_took_effect_twice_is_seen(folder, ledger, backend):
    one_good_run(ledger)
    ledger.write("settled", verdict="retry", done=[["first/a", TOKEN]], refused=[])
    assert any("2 times" in line for line in prove(folder, backend))


def test_two_completions_of_a_job_are_seen(folder, ledger, backend):
    one_good_run(ledger)
    one_good_run(Ledger(folder, "other"), token=OTHER)
    assert any("completed 2 times" in line for line in prove(folder, backend))


def test_a_run_without_a_lease_is_seen(folder, ledger, backend):
    ledger.write("began", id="first/a", attempt=1, run="1")
    assert any("with 0 leases" in line for line in prove(folder, backend))


def test_a_second_run_without_a_reason_is_seen_and_one_with_a_reason_is_not(folder, backend):
    for name in ("one", "two"):
        ledger = Ledger(folder, name)
        ledger.write("leased", token=name, ids=["first/a"])
        ledger.write("ended", id="first/a", run="1", how="returned", cancelled=None)
        ledger.write("bye", settled=1, released=0, abandoned=0)
    assert any("without a reason" in line for line in prove(folder, backend))
    Ledger(folder, "one").write("unknown", verdict="complete", leases=[["first/a", "one"]])
    assert prove(folder, backend) == []


@pytest.mark.parametrize("what", ["memory", "threads", "descriptors"])
def test_growth_is_seen(folder, ledger, backend, what):
    for second in range(60):
        flat = {"memory": 1e8, "threads": 10, "descriptors": 10}
        ledger.write("sample", at=float(second), **(flat | {what: flat[what] * (1 + second / 30)}))
    assert any(f"{what} grew" in line for line in prove(folder, backend))


def test_a_seed_replays_the_schedule_of_faults():
    first = draw(7, 1.0, ("cut", "kill crew"), 3)
    assert first == draw(7, 1.0, ("cut", "kill crew"), 3)
    assert first != draw(8, 1.0, ("cut", "kill crew"), 3)
    assert all(0 <= fault.at < 60 for fault in first)
