"""Settling leases: complete, retry, bury and release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from scheduler.leases import Completion, Failure, Lease
from scheduler_backends.redis.client.node import Word
from scheduler_backends.redis.codec import error_text
from scheduler_backends.redis.held import Encode, call_on_leases, release
from scheduler_backends.redis.scripts import BURY, COMPLETE, RETRY
from scheduler_backends.redis.store import Store


class SettleHooks:
    """The hooks by which leases end."""

    _store: Store

    def _complete(self, completions: Sequence[Completion]) -> Sequence[Lease]:
        store = self._store
        kept = store.retention.succeeded > 0
        # The first counts, if a lease is named twice.
        results = {id(one.lease): one.result for one in reversed(completions)} if kept else {}

        def encode(group: bytes, held: list[Lease]) -> list[Word]:
            words: list[Word] = [group, len(held), *[lease.job.id.encode() for lease in held]]
            if kept:
                found = [results[id(lease)] for lease in held]
                words += [b"" if result is None else b"=" + result for result in found]
            return words

        leases = [one.lease for one in completions]
        return call_on_leases(store, COMPLETE, leases, lambda _: (store.calls.now(), int(kept)), encode)

    def _retry(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        """Without a delay the job is ready at once."""
        store = self._store
        return call_on_leases(
            store,
            RETRY,
            [failure.lease for failure in failures],
            lambda partition: (store.calls.now(), store.keys.channel(partition.queue)),
            _encoder(failures, lambda one: (round(one.delay * 1_000_000), int(one.counted), error_text(one.error))),
        )

    def _bury(self, failures: Sequence[Failure]) -> Sequence[Lease]:
        store = self._store
        kept = int(store.retention.dead > 0)
        return call_on_leases(
            store,
            BURY,
            [failure.lease for failure in failures],
            lambda _: (store.calls.now(), kept),
            _encoder(failures, lambda one: (int(one.counted), error_text(one.error))),
        )

    def _release(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """The jobs are first in line."""
        return release(self._store, leases)


def _encoder(failures: Sequence[Failure], words_of: Callable[[Failure], tuple[Word, ...]]) -> Encode:
    """Encode each lease as id, group and what else the script needs of its failure."""
    by_lease = {id(failure.lease): failure for failure in reversed(failures)}  # the first counts

    def encode(group: bytes, held: list[Lease]) -> Iterable[Word]:
        for lease in held:
            yield from (lease.job.id.encode(), group, *words_of(by_lease[id(lease)]))

    return encode
