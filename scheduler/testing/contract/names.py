"""Names may contain any allowed characters and are never confused with other names (guarantee 20)."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest

from scheduler.errors import InvalidJob, SchedulerError
from scheduler.limits import MAX_NAME
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness

ODD_NAMES = (
    *("a", "A", "a:b", "a:b:ready", "a:b:c", "a/b", "a.b", "a b", " a", "a ", " ", ".", "..", "-", "_", "0", "00"),
    *("*", "?", "[a]", "{x}", "{x", "x}", "{}", "%s", "%", "%41", "$1", "\\", "\\x00", "|", "~", "#", "&", "=", ","),
    *("'", '"', "'; --", "`", "NULL", "null", "None", "true", "<b>", "--", ";"),
    *(
        "ä/日本",
        "\u00e9",
        "e\u0301",
        "\u00df",
        "ss",
        "\u0130",
        "i",
        "I",
        "\u200b",
        "\u2028",
        "\ufeff",
        "😀",
        "\U0010ffff",
    ),
    *("x" * MAX_NAME, "x" * (MAX_NAME - 1) + "y", "😀" * MAX_NAME),
)
"""Pairs among them would be one if a store joined by ":", folded case, trimmed, or normalised."""

_ASKED_FOR = 300  # names; more than what a process may allocate by the way, divided by what a name would cost

_REFUSED = ("", "x" * (MAX_NAME + 1), "a\nb", "a\0", "\x1f", "\x7f", "\x85", "\ud800", "a\udfff")


def _in_queue_names() -> list[str]:
    """Odd names with room for what makes them unique, before and after."""
    return [pattern for name in ODD_NAMES for pattern in (name[:180] + "{}", "{}" + name[:180])]


class NamesContract:
    def test_queues_of_odd_names_keep_their_own_jobs(self, harness: BackendHarness) -> None:
        patterns = dict.fromkeys(_in_queue_names())
        unique = harness.new_queue("{}")
        queues = {pattern.replace("{}", unique): [f"{number}" for number in range(3)] for pattern in patterns}
        harness.queues[:] = queues
        harness.enqueue(
            *(harness.new(queue=queue, id=id, payload=queue.encode()) for queue in queues for id in queues[queue])
        )
        for queue, ids in queues.items():
            leases = harness.lease(queues=[queue])
            assert sorted(lease.job.id for lease in leases) == ids, queue
            assert {(lease.job.queue, lease.job.payload) for lease in leases} == {(queue, queue.encode())}
            assert harness.counts(queue)[JobState.LEASED] == 3
        assert [row.queue for row in harness.backend.stats([*queues])] == sorted(queues)
        assert {*queues} <= {row.queue for row in harness.backend.stats()}

    def test_pausing_and_purging_one_odd_queue_touches_no_other(self, harness: BackendHarness) -> None:
        unique = harness.new_queue("{}")
        queues = [f"{name}{unique}" for name in ("*", "a*", "a", "a:b", "%", "_", "{a}", "?")]
        harness.queues[:] = queues
        for queue in queues:
            harness.add(queue=queue, id="j", delay=LONG)
        for queue in queues[:3]:
            harness.backend.pause(queue)
            assert harness.backend.purge(queue, JobState.SCHEDULED, 100) == 1
        assert [harness.numbers(queue).paused for queue in queues] == [True] * 3 + [False] * 5
        assert [harness.counts(queue)[JobState.SCHEDULED] for queue in queues] == [0] * 3 + [1] * 5

    def test_calls_with_unknown_names_store_nothing(self, harness: BackendHarness) -> None:
        """The names may come from web requests, in unlimited number."""
        backend, unique = harness.backend, harness.new_queue("{}")

        def ask(number: int) -> None:
            queue = f"{unique} {number}"
            assert not backend.get(queue, ["j"])
            assert not backend.list(queue, JobState.READY).jobs
            assert [result.state for result in backend.cancel(queue, ["j"])] == [None]
            assert [result.state for result in backend.requeue(queue, ["j"])] == [None]
            assert backend.purge(queue, JobState.DEAD, 1) == 0
            assert {row.queue for row in backend.stats([queue])} == {queue}

        for number in range(50):
            ask(number)
        gc.collect()
        tracemalloc.start()
        try:
            for number in range(50, 50 + _ASKED_FOR):
                ask(number)
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert held < 500 * _ASKED_FOR, "bytes"
        assert not [row for row in backend.stats() if row.queue.startswith(unique)]

    def test_odd_ids_are_kept_apart(self, harness: BackendHarness) -> None:
        for id in ODD_NAMES:
            harness.add(id=id, payload=id.encode(), delay=LONG)
        got = harness.backend.get(harness.queue, ODD_NAMES)
        assert {id: job.payload for id, job in got.items()} == {id: id.encode() for id in ODD_NAMES}
        listed = harness.listed(JobState.SCHEDULED, limit=7)
        assert sorted(job.id for job in listed) == sorted(ODD_NAMES)
        half = ODD_NAMES[::2]
        assert all(result.moved for result in harness.backend.cancel(harness.queue, half))
        assert sorted(job.id for job in harness.listed(JobState.SCHEDULED)) == sorted(ODD_NAMES[1::2])

    @pytest.mark.parametrize("joint", [":", "/", ".", "\u200b", "}", " ", "-", "|"], ids=ascii)
    def test_a_queue_and_an_id_are_not_joined_ambiguously(self, harness: BackendHarness, joint: str) -> None:
        """Queue "a" with id "b:c" and queue "a:b" with id "c" are different jobs with equal joined names."""
        short = harness.new_queue()
        long = f"{short}{joint}b"
        harness.queues.append(long)
        harness.add(queue=short, id=f"b{joint}c", payload=b"short")
        harness.add(queue=long, id="c", payload=b"long")
        harness.add(queue=long, id=f"b{joint}c", payload=b"both")
        assert [lease.job.payload for lease in harness.lease(queues=[short])] == [b"short"]
        assert sorted(lease.job.payload for lease in harness.lease(queues=[long])) == [b"both", b"long"]

    def test_jobs_with_odd_ids_make_every_move(self, harness: BackendHarness) -> None:
        harness.enqueue(*(harness.new(id=id) for id in ODD_NAMES))
        leases = harness.lease()
        assert sorted(lease.job.id for lease in leases) == sorted(ODD_NAMES)
        assert not harness.backend.renew(leases, LONG).refused
        assert not harness.backend.release(leases)
        assert len(harness.lease()) == len(ODD_NAMES)

    def test_odd_types_owners_keys_and_metadata_are_returned_unchanged(self, harness: BackendHarness) -> None:
        for name in ODD_NAMES:
            metadata = {name: name, "tab\tand\nnewline": "\x01\x7f", "": "empty key"}
            job = harness.add(type=name, idempotency_key=name, metadata=metadata)
            lease = harness.lease_one(worker_id=name)
            stored = harness.job(job.id)
            assert stored == lease.job
            assert (stored.type, stored.idempotency_key, stored.lease_owner) == (name, name, name)
            assert dict(stored.metadata) == metadata

    @pytest.mark.parametrize("name", _REFUSED, ids=ascii)
    @pytest.mark.parametrize("field", ["queue", "id", "type", "idempotency_key"])
    def test_any_other_name_is_refused_before_it_is_stored(
        self, harness: BackendHarness, field: str, name: str
    ) -> None:
        with pytest.raises(InvalidJob) as refusal:
            harness.add(**{field: name})
        assert refusal.value.field == field
        assert not any(harness.counts().values())

    @pytest.mark.parametrize("name", _REFUSED, ids=ascii)
    def test_any_other_queue_or_owner_is_refused_by_every_call(self, harness: BackendHarness, name: str) -> None:
        backend = harness.backend
        calls: dict[str, Callable[[], object]] = {
            "promote_due": lambda: backend.promote_due([harness.queue, name], 1),
            "lease": lambda: harness.lease_once(queues=[name]),
            "lease as": lambda: harness.lease_once(worker_id=name),
            "recover_expired": lambda: backend.recover_expired([name], 1),
            "get": lambda: backend.get(name, ["j"]),
            "list": lambda: backend.list(name, JobState.READY),
            "stats": lambda: backend.stats([name]),
            "cancel": lambda: backend.cancel(name, ["j"]),
            "requeue": lambda: backend.requeue(name, ["j"]),
            "pause": lambda: backend.pause(name),
            "resume": lambda: backend.resume(name),
            "purge": lambda: backend.purge(name, JobState.DEAD, 1),
            "trim": lambda: backend.trim([name], 1),
        }
        for method, call in calls.items():
            with pytest.raises(SchedulerError) as refusal:
                call()
            field = getattr(refusal.value, "field", None)
            assert field in ("queue", "queues", "worker_id"), f"{method}: {refusal.value!r}"
