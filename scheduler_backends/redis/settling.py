"""Renew and settle: each lease to its partition, grouped by token, and the refused ones found again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from scheduler.errors import BackendError
from scheduler.leases import Completion, Failure, Lease
from scheduler.queues import Retention
from scheduler_backends.redis.calls import Call, Calls
from scheduler_backends.redis.codec import error_text
from scheduler_backends.redis.errors import is_news, is_of_wrong_type, log
from scheduler_backends.redis.keys import Keys, Partition
from scheduler_backends.redis.marks import Marks
from scheduler_backends.redis.nodes import Word
from scheduler_backends.redis.scripts import BURY, COMPLETE, RELEASE, RENEW, RETRY, Script

SLICE = 1_000  # jobs in one script; Lua's unpack ends near 8,000 values


def group_of(token: str) -> bytes:
    """The lease group that a token names."""
    try:
        group = bytes.fromhex(token)
    except ValueError:
        group = b""
    # Any other text than that of the token names no group, and is refused; upper case and spaces are read as well.
    return group if group.hex() == token else token.encode(errors="replace")[:64]


class Settling:
    """Ends leases. Any thread."""

    def __init__(self, calls: Calls, keys: Keys, retention: Retention, marks: Marks) -> None:
        self._calls = calls
        self._marks = marks
        self._keys = keys
        self._retention = retention

    def renew(self, leases: Sequence[Lease], duration: float) -> list[Lease]:
        """As `Backend.renew`, the refused alone."""
        milliseconds = math.ceil(duration * 1000)
        return self._by_group(RENEW, list(leases), lambda _: (self._calls.now(), milliseconds), results=None)

    def complete(self, completions: Sequence[Completion]) -> list[Lease]:
        """As `Backend.complete`."""
        kept = self._retention.succeeded > 0
        results = {id(one.lease): b"=" + one.result for one in completions if one.result is not None} if kept else None
        leases = [one.lease for one in completions]
        return self._by_group(COMPLETE, leases, lambda _: (self._calls.now(), int(kept)), results=results)

    def retry(self, failures: Sequence[Failure]) -> list[Lease]:
        """As `Backend.retry`."""
        return self._each(
            RETRY,
            [failure.lease for failure in failures],
            [(round(one.delay * 1_000_000), int(one.counted), error_text(one.error)) for one in failures],
            lambda partition: (self._calls.now(), self._keys.channel(partition.queue)),
        )

    def bury(self, failures: Sequence[Failure]) -> list[Lease]:
        """As `Backend.bury`."""
        kept = int(self._retention.dead > 0)
        return self._each(
            BURY,
            [failure.lease for failure in failures],
            [(int(one.counted), error_text(one.error)) for one in failures],
            lambda _: (self._calls.now(), kept),
        )

    def release(self, leases: Sequence[Lease]) -> list[Lease]:
        """As `Backend.release`."""
        return self._each(
            RELEASE,
            leases,
            [()] * len(leases),
            lambda partition: (self._calls.now(), self._keys.channel(partition.queue)),
        )

    def _by_group(
        self,
        script: Script,
        leases: Sequence[Lease],
        head: Callable[[Partition], tuple[Word, ...]],
        *,
        results: dict[int, bytes] | None,
    ) -> list[Lease]:
        """A script that takes ids by lease group: group, number of ids, ids, and results where those are kept."""
        refused: list[Lease] = []
        calls: list[Call] = []
        sent: list[list[Lease]] = []
        for partition, groups in self._grouped(leases, refused, repeats=script is RENEW).items():
            args: list[Word] = [*head(partition)]
            order: list[Lease] = []
            for group, of_group in groups:
                for start in range(0, len(of_group), SLICE):
                    some = of_group[start : start + SLICE]
                    if order and len(order) + len(some) > SLICE:
                        calls.append(Call(script, partition, tuple(args)))
                        sent.append(order)
                        args, order = [*head(partition)], []
                    args += (group, len(some), *[_raw_id(lease) for lease in some])
                    if script is COMPLETE and self._retention.succeeded > 0:
                        args += ((results or {}).get(id(lease), b"") for lease in some)
                    order += some
            calls.append(Call(script, partition, tuple(args)))
            sent.append(order)
        for order, answer in self._answered(calls, sent, refused):
            places = cast("list[int]", answer)
            refused += (order[place if place >= 0 else -1 - place] for place in places)
            _tell_of_gone([_raw_id(order[-1 - place]) for place in places if place < 0])
        return refused

    def _each(
        self,
        script: Script,
        leases: Sequence[Lease],
        words: Sequence[tuple[Word, ...]],
        head: Callable[[Partition], tuple[Word, ...]],
    ) -> list[Lease]:
        """A script that takes jobs one by one: id, group, and what else it needs of each."""
        refused: list[Lease] = []
        rest = {id(lease): each for lease, each in zip(leases, words, strict=True)}
        calls: list[Call] = []
        sent: list[list[Lease]] = []
        for partition, groups in self._grouped(leases, refused, repeats=False).items():
            all_of_it = [(group, lease) for group, of_group in groups for lease in of_group]
            for start in range(0, len(all_of_it), SLICE):
                batch = all_of_it[start : start + SLICE]
                some = [lease for _, lease in batch]
                args: list[Word] = [*head(partition)]
                for group, lease in batch:
                    args += (_raw_id(lease), group, *rest[id(lease)])
                calls.append(Call(script, partition, tuple(args)))
                sent.append(some)
        for some, answer in self._answered(calls, sent, refused):
            places, lost = cast("tuple[list[int], list[bytes]]", answer)
            refused += (some[place] for place in places)
            _tell_of_gone(lost)
        return refused

    def _answered(
        self, calls: Sequence[Call], sent: Sequence[list[Lease]], refused: list[Lease]
    ) -> Iterator[tuple[list[Lease], object]]:
        """
        The answers, each with the leases that it is about; raises the first error that may pass.

        Where somebody has put a key of another type, no repeat will help: those leases are refused. So their jobs are
        left to recovery, and nobody is kept from settling the others.
        """
        answers = self._calls.run(calls) if calls else []
        for answer in answers:
            if isinstance(answer, BackendError) and not is_of_wrong_type(answer):
                raise answer
        for call, leases, answer in zip(calls, sent, answers, strict=True):
            if isinstance(answer, BackendError):
                refused += leases
                if is_news(f"{call.partition!r}: {answer}"):
                    log.error("%r: %d leases could not be settled or renewed: %s", call.partition, len(leases), answer)
            else:
                if call.script is not RENEW:
                    self._marks.given_up(call.partition, len(leases))
                yield leases, answer

    def _grouped(
        self, leases: Iterable[Lease], refused: list[Lease], *, repeats: bool
    ) -> dict[Partition, list[tuple[bytes, list[Lease]]]]:
        """The leases by partition and group; one that stands there twice is refused at its second, as a repeat is."""
        groups: dict[tuple[str, int, int, str], list[Lease]] = {}
        for lease in leases:
            job = lease.job
            name = (job.queue, job.queue_version, job.partition, lease.token)
            try:
                groups[name].append(lease)
            except KeyError:
                groups[name] = [lease]
        grouped: dict[Partition, list[tuple[bytes, list[Lease]]]] = {}
        for (queue, version, number, token), held in groups.items():
            if not repeats and len({lease.job.id for lease in held}) < len(held):
                held = _without_repeats(held, refused)  # noqa: PLW2901 - what is left of it
            partition = self._keys.partition(queue, version, number)
            grouped.setdefault(partition, []).append((group_of(token), held))
        return grouped


def _tell_of_gone(ids: Sequence[bytes]) -> None:
    if ids:
        log.warning("%d leased jobs have no record any more, %r the first: somebody has removed it", len(ids), ids[0])


def _raw_id(lease: Lease) -> bytes:
    # A forged one may have an id that no job can have: as bytes that are no UTF-8 it is nobody's, and is refused.
    return lease.job.id.encode(errors="surrogatepass")


def _without_repeats(leases: Sequence[Lease], refused: list[Lease]) -> list[Lease]:
    once: dict[str, Lease] = {}
    for lease in leases:
        if lease.job.id in once:
            refused.append(lease)
        else:
            once[lease.job.id] = lease
    return list(once.values())
