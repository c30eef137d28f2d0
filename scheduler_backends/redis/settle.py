"""Settling leases: complete, retry, bury and release, in one call per partition and up to 1,000 leases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from scheduler.errors import BackendError
from scheduler.leases import Completion, Failure, Lease
from scheduler_backends.redis.calls import Call
from scheduler_backends.redis.client.node import Word
from scheduler_backends.redis.codec import error_text
from scheduler_backends.redis.errors import is_of_wrong_type, log, should_log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.scripts import BURY, COMPLETE, RELEASE, RENEW, RETRY, SLICE, Script
from scheduler_backends.redis.store import Store

Encode = Callable[[bytes, list[Lease]], Iterable[Word]]
_More = Callable[[Failure], tuple[Word, ...]]


class SettleHooks:
    """Hooks of the methods that settle leases."""

    _store: Store

    def _complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        kept = self._store.retention.succeeded > 0
        # Reversed: if a lease is given twice, its first completion counts.
        results = {id(one.lease): one.result for one in reversed(completions)} if kept else {}

        def encode(group: bytes, held: list[Lease]) -> list[Word]:
            words: list[Word] = [group, len(held), *[lease.job.id.encode() for lease in held]]
            if kept:
                found = [results[id(lease)] for lease in held]
                words += [b"" if result is None else b"=" + result for result in found]
            return words

        return call_on_leases(self._store, COMPLETE, [one.lease for one in completions], encode, second=int(kept))

    def _retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """Retry failed jobs. Without a delay, a job becomes ready at once."""
        return _fail(self._store, RETRY, failures, lambda one: (round(one.delay * 1_000_000),))

    def _bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        return _fail(self._store, BURY, failures, lambda _: (), int(self._store.retention.dead > 0))

    def _release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Return jobs to the front of their ready lists."""

        def encode(group: bytes, held: list[Lease]) -> list[Word]:
            return [word for lease in held for word in (lease.job.id.encode(), group)]

        return call_on_leases(self._store, RELEASE, leases, encode)


def _fail(
    store: Store, script: Script, failures: Sequence[Failure], more: _More, second: Word | None = None
) -> list[Lease]:
    by_lease = {id(failure.lease): failure for failure in reversed(failures)}  # the first failure of a lease counts

    def encode(group: bytes, held: list[Lease]) -> Iterable[Word]:
        for lease in held:
            failure = by_lease[id(lease)]
            yield from (lease.job.id.encode(), group, *more(failure), int(failure.counted), error_text(failure.error))

    return call_on_leases(store, script, [failure.lease for failure in failures], encode, second=second)


def call_on_leases(
    store: Store, script: Script, leases: Sequence[Lease], encode: Encode, *, second: Word | None = None
) -> list[Lease]:
    """
    Run *script* on *leases* and return the refused ones.

    Args:
        store: The store of the leases.
        script: Returns the positions (from 0, within its call) of the refused jobs, and the ids of those refused
            because their record is gone.
        leases: Any number of leases, in any partitions.
        encode: Returns the arguments for the leases of one group. The script gets the time and *second* before them.
        second: The second argument of the script. None = the channel of the queue.

    Raises:
        BackendError: The first error, after all calls were made. If a key has the wrong type, a repeat would not help:
            the error is logged and the leases are refused instead, and recovery handles their jobs.
    """
    store.calls.check_open()
    refused: list[Lease] = []
    sent: list[tuple[Partition, list[Word], list[Lease]]] = []
    last: dict[Partition, tuple[list[Word], list[Lease]]] = {}  # the last call on each partition
    for (queue, version, number, token), held in _by_group(leases).items():
        if script is not RENEW and len({lease.job.id for lease in held}) < len(held):
            held = _without_repeats(held, refused)  # noqa: PLW2901 - each job once
        partition = store.keys.partition(queue, version, number)
        for start in range(0, len(held), SLICE):
            some = held[start : start + SLICE]
            if partition not in last or len(last[partition][1]) + len(some) > SLICE:
                last[partition] = ([store.calls.now(), partition.channel if second is None else second], [])
                sent.append((partition, *last[partition]))
            args, in_call = last[partition]
            args += encode(bytes.fromhex(token), some)
            in_call += some
    answers = store.calls.run([Call(script, partition, tuple(args)) for partition, args, _ in sent]) if sent else []
    for answer in answers:
        if isinstance(answer, BackendError) and not is_of_wrong_type(answer):
            raise answer
    for (partition, _, some), answer in zip(sent, answers, strict=True):
        if isinstance(answer, BackendError):
            refused += some
            if should_log(f"{partition!r}: {answer}"):
                log.error("%r: %d leases could not be settled or renewed: %s", partition, len(some), answer)
            continue
        if script is not RENEW:
            store.marks.ended(partition, len(some))
        places, lost = cast("tuple[list[int], list[bytes]]", answer)
        refused += (some[place] for place in places)
        if lost:
            message = "the records of %d leased jobs were removed, the first is %r"
            log.warning(message, len(lost), lost[0])
    return refused


def _by_group(leases: Iterable[Lease]) -> dict[tuple[str, int, int, str], list[Lease]]:
    """Group *leases* by queue, version, partition and token."""
    groups: defaultdict[tuple[str, int, int, str], list[Lease]] = defaultdict(list)
    for lease in leases:
        job = lease.job
        groups[job.queue, job.queue_version, job.partition, lease.token].append(lease)
    return groups


def _without_repeats(leases: Sequence[Lease], refused: list[Lease]) -> list[Lease]:
    once: dict[str, Lease] = {}
    for lease in leases:
        if lease.job.id in once:
            refused.append(lease)
        else:
            once[lease.job.id] = lease
    return list(once.values())
