"""Calls on leases that are held: by partition and lease group, in slices, and the refused ones found again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from scheduler.errors import BackendError
from scheduler.leases import Lease
from scheduler_backends.redis.calls import Call
from scheduler_backends.redis.client.node import Word
from scheduler_backends.redis.errors import is_of_wrong_type, log, should_log
from scheduler_backends.redis.keys import Partition
from scheduler_backends.redis.scripts import RELEASE, RENEW, SLICE, Script
from scheduler_backends.redis.store import Store

Groups = list[tuple[bytes, list[Lease]]]  # lease groups of one partition with their leases
Encode = Callable[[bytes, list[Lease]], Iterable[Word]]


def call_on_leases(
    store: Store, script: Script, leases: Sequence[Lease], head: Callable[[Partition], tuple[Word, ...]], encode: Encode
) -> list[Lease]:
    """
    Run *script* on *leases* and return those that it refused.

    Args:
        store: Its calls are used.
        script: Returns the numbers of the refused jobs, counted over the call, and the ids of those among them whose
            record is gone.
        leases: Any number of them, in any partitions.
        head: The arguments of a call on a partition that come before the leases.
        encode: The arguments for the leases of one group.

    Raises:
        BackendError: an error that may pass, once all calls were made. Where a key is of another type, which no repeat
            would change, the leases are refused instead: recovery takes care of their jobs, and the others are settled.
    """
    store.calls.check_open()
    refused: list[Lease] = []
    calls: list[Call] = []
    sent: list[list[Lease]] = []
    for partition, groups in _grouped(store, leases, refused, repeats=script is RENEW).items():
        for part in _slices(groups):
            args: list[Word] = [*head(partition)]
            for group, held in part:
                args += encode(group, held)
            calls.append(Call(script, partition, tuple(args)))
            sent.append(part[0][1] if len(part) == 1 else [lease for _, held in part for lease in held])
    answers = store.calls.run(calls) if calls else []
    for answer in answers:
        if isinstance(answer, BackendError) and not is_of_wrong_type(answer):
            raise answer
    for call, some, answer in zip(calls, sent, answers, strict=True):
        if isinstance(answer, BackendError):
            refused += some
            if should_log(f"{call.partition!r}: {answer}"):
                log.error("%r: %d leases could not be settled or renewed: %s", call.partition, len(some), answer)
            continue
        if script is not RENEW:
            store.marks.given_up(call.partition, len(some))
        places, lost = cast("tuple[list[int], list[bytes]]", answer)
        refused += (some[place] for place in places)
        if lost:
            message = "%d leased jobs have no record any more, %r the first: something has removed it"
            log.warning(message, len(lost), lost[0])
    return refused


def release(store: Store, leases: Sequence[Lease]) -> list[Lease]:
    """Leased → ready. Return the refused leases."""
    return call_on_leases(
        store,
        RELEASE,
        leases,
        lambda partition: (store.calls.now(), store.keys.channel(partition.queue)),
        lambda group, held: [word for lease in held for word in (lease.job.id.encode(), group)],
    )


def _grouped(store: Store, leases: Iterable[Lease], refused: list[Lease], *, repeats: bool) -> dict[Partition, Groups]:
    """The leases by partition and group. Without *repeats*, one that is named twice is refused the second time."""
    groups: dict[tuple[str, int, int, str], list[Lease]] = {}
    for lease in leases:
        job = lease.job
        name = (job.queue, job.queue_version, job.partition, lease.token)
        try:
            groups[name].append(lease)
        except KeyError:
            groups[name] = [lease]
    grouped: dict[Partition, Groups] = {}
    for (queue, version, number, token), held in groups.items():
        if not repeats and len({lease.job.id for lease in held}) < len(held):
            held = _without_repeats(held, refused)  # noqa: PLW2901 - what is left of it
        partition = store.keys.partition(queue, version, number)
        grouped.setdefault(partition, []).append((bytes.fromhex(token), held))
    return grouped


def _without_repeats(leases: Sequence[Lease], refused: list[Lease]) -> list[Lease]:
    once: dict[str, Lease] = {}
    for lease in leases:
        if lease.job.id in once:
            refused.append(lease)
        else:
            once[lease.job.id] = lease
    return list(once.values())


def _slices(groups: Groups) -> Iterator[Groups]:
    """The groups of a partition, so many jobs at a time as one script takes."""
    some: Groups = []
    size = 0
    for group, leases in groups:
        for start in range(0, len(leases), SLICE):
            part = leases[start : start + SLICE]
            if some and size + len(part) > SLICE:
                yield some
                some, size = [], 0
            some.append((group, part))
            size += len(part)
    yield some
