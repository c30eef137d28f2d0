"""Ids, tokens and keys are unique across threads and forks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler import identity
from scheduler.identity import id_for_key, new_id, new_token, own_number
from scheduler.limits import check_token

THREADS = 8


def in_threads(make: Callable[[], str], each: int) -> list[list[str]]:
    """Call *make* in 8 threads that start together, *each* times per thread, and return the results in order."""
    together = threading.Barrier(THREADS)

    def run(_: int) -> list[str]:
        together.wait(timeout=30)
        return [make() for _ in range(each)]

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def run_alone(script: str) -> list[str]:
    """Run *script* in its own process, since it forks, and return the lines that it prints."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


FORKS = """
import os
from scheduler.identity import new_id, new_token
mine = [{make}() for _ in range(50)]  # before the forks, so that the children inherit what the parent has begun
reading, writing = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        os.write(writing, "".join({make}() + "\\n" for _ in range(50)).encode())
        os._exit(0)
mine += [{make}() for _ in range(50)]
for _ in range(4):
    assert os.wait()[1] == 0
os.close(writing)
with open(reading) as theirs:
    print(*mine, *theirs)
"""


def test_an_id_is_a_uuid_of_version_7_that_tells_its_time() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(new_id())
    after = time.time_ns() // 1_000_000
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    # Ids of one burst may run a little ahead of the clock; a second is far more than any burst of these tests.
    assert before <= made.int >> 80 <= after + 1_000


def test_ids_ascend_and_are_unique_within_threads() -> None:
    made = in_threads(new_id, 2_000)
    assert len({one for mine in made for one in mine}) == THREADS * 2_000
    for mine in made:
        assert mine == sorted(mine)


def test_ids_ascend_although_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([2_000_000_000_000_000_000, 1_000_000_000_000_000_000, 2_000_000_000_000_000_000])
    monkeypatch.setattr(identity, "_last_id", 0)
    monkeypatch.setattr(time, "time_ns", lambda: next(ticks))
    first, second, third = new_id(), new_id(), new_id()
    monkeypatch.undo()
    assert first < second < third


def test_ids_of_one_moment_ascend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also across a millisecond, when the 12 bits of the fraction overflow."""
    monkeypatch.setattr(identity, "_last_id", 0)
    monkeypatch.setattr(time, "time_ns", lambda: 2_000_000_000_000_000_000)
    made = [new_id() for _ in range(5_000)]
    monkeypatch.undo()
    assert made == sorted(set(made))
    assert {uuid.UUID(one).version for one in made} == {7}


@pytest.mark.parametrize("make", ["new_id", "new_token"])
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_parent_and_children_never_make_the_same(make: str) -> None:
    made = run_alone(FORKS.format(make=make))
    assert len(made) == len(set(made)) == 300


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_another_thread_that_makes_an_id_while_forking_does_not_stop_the_child() -> None:
    script = """
import os, signal, threading
from scheduler.identity import new_id
stop = []
def make():
    while not stop:
        new_id()
threads = [threading.Thread(target=make) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(20):
    if os.fork() == 0:
        signal.alarm(20)  # a child that waits for ever would be killed, and the parent told
        new_id()
        os._exit(0)
    print(os.wait()[1])
stop.append(True)
"""
    assert run_alone(script) == ["0"] * 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_process_id_that_comes_back_brings_no_token_back() -> None:
    """A child discards its parent's random bits at the fork, not only when it sees another process id."""
    script = """
import os
from scheduler import identity
token = identity.new_token()
getpid = os.getpid()
if os.fork() == 0:
    os.getpid = lambda: getpid  # as in a grandchild that was given its late grandparent's number
    os._exit(identity.new_token()[:18] == token[:18] or identity.own_number(token) is not None)
print(os.wait()[1])
"""
    assert run_alone(script) == ["0"]


def test_tokens_have_their_form_and_are_unique_in_threads() -> None:
    made = [token for mine in in_threads(new_token, 5_000) for token in mine]
    assert len(set(made)) == len(made)
    assert all(check_token(token) == token for token in made)


def test_tokens_of_one_process_count_up() -> None:
    first, second = new_token(), new_token()
    assert first[:18] == second[:18]
    assert int(second[18:], 16) == int(first[18:], 16) + 1


def test_the_id_of_a_key_never_changes() -> None:
    """Stored jobs are found again by later versions: this value is a promise."""
    assert id_for_key("mail", "order-1") == "c8b8c504-4f42-57f3-b022-c43b44fcb84b"
    assert re.fullmatch("[0-9a-f-]{36}", id_for_key("ä/日本", "🦉"))


NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)


@given(NAMES, NAMES, NAMES, NAMES)
def test_different_keys_or_queues_have_different_ids(queue: str, key: str, other_queue: str, other_key: str) -> None:
    assume((queue, key) != (other_queue, other_key))
    assert id_for_key(queue, key) != id_for_key(other_queue, other_key)


def test_moving_the_border_between_queue_and_key_gives_another_id() -> None:
    assert len({id_for_key("a", "bc"), id_for_key("ab", "c"), id_for_key("a:b", "c"), id_for_key("a", "b:c")}) == 4


def test_a_process_knows_the_tokens_that_it_made():
    first, second = own_number(new_token()), own_number(new_token())
    assert first is not None
    assert second == first + 1
    assert own_number("0" * 32) is None
