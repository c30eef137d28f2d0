"""Many threads at once: each move is atomic (guarantees 8 and 23)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from scheduler.identity import new_token
from scheduler.leases import Completion, Failure, Lease
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import ONCE

_THREADS = 6

T = TypeVar("T")


def _all_at_once(work: Callable[[int], T]) -> Sequence[T]:
    """Run *work* in several threads that start together, and return the results. Raise what *work* raises."""
    ready = Barrier(_THREADS, timeout=30.0)

    def begin(number: int) -> T:
        ready.wait()
        return work(number)

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="contract") as pool:
        return [future.result(60.0) for future in [pool.submit(begin, number) for number in range(_THREADS)]]


class ThreadsContract:
    def test_each_job_is_leased_by_one_of_many(self, harness: BackendHarness) -> None:
        jobs = harness.add_many(300)
        harness.promote()

        def take(number: int) -> Sequence[Lease]:
            taken: list[Lease] = []
            while leases := harness.backend.lease(
                [harness.queue], token=new_token(), worker_id=f"w{number}", duration=LONG, limit=7
            ):
                taken.extend(leases)
            return taken

        leases = [lease for taken in _all_at_once(take) for lease in taken]
        # A short message, since pytest takes minutes to show how two large counters differ.
        twice = [id for id, count in Counter(lease.job.id for lease in leases).items() if count > 1]
        assert not twice, f"{len(twice)} jobs were leased more than once"
        assert {lease.job.id for lease in leases} >= {job.id for job in jobs}
        assert not harness.backend.complete([Completion(lease=lease) for lease in leases])

    def test_a_job_enqueued_by_many_is_stored_once(self, harness: BackendHarness) -> None:
        def enqueue(number: int) -> Sequence[bool]:
            ids = random.sample(range(50), 50)
            return [harness.enqueue(harness.new(id=f"{id}", payload=b"%d" % number))[0].is_new for id in ids]

        results = [is_new for result in _all_at_once(enqueue) for is_new in result]
        assert results.count(True) == 50
        assert len(harness.lease()) == 50

    def test_a_lease_is_settled_by_one_of_many_and_overlapping_batches_do_not_deadlock(
        self, harness: BackendHarness
    ) -> None:
        """In any order and by any moves, each lease is settled once, and the job ends in the state of that move."""
        harness.add_many(200)
        leases = harness.lease()

        def settle(number: int) -> Sequence[Lease]:
            mine = random.sample(leases, len(leases))
            harness.backend.renew(mine, LONG)
            if number % 3 == 0:
                refused = harness.backend.complete([Completion(lease=lease) for lease in mine])
            elif number % 3 == 1:
                refused = harness.backend.bury([Failure(lease=lease, error=ONCE) for lease in mine])
            else:
                refused = harness.backend.retry([Failure(lease=lease, delay=LONG, error=ONCE) for lease in mine])
            return list(set(leases) - set(refused))

        taken = _all_at_once(settle)
        takers = Counter(lease.job.id for each in taken for lease in each)
        assert not [id for id, count in takers.items() if count > 1], "leases were settled more than once"
        assert len(takers) == len(leases)
        states = (JobState.SUCCEEDED, JobState.DEAD, JobState.RETRY_WAIT)
        counts = harness.counts()
        for number, state in enumerate(states):
            assert counts[state] == sum(len(each) for each in taken[number::3])

    def test_recovery_by_many_counts_each_crash_once(self, harness: BackendHarness) -> None:
        jobs = harness.add_many(100, max_retries=5)
        harness.lease(duration=harness.span)
        harness.wait(1.1 * harness.span)

        def recover(_: int) -> int:
            found = 0
            for _attempt in range(100):
                recovery = harness.backend.recover_expired([harness.queue], 10)
                found += recovery.ready
                if recovery.next_expiry is None:
                    break
            return found

        assert sum(_all_at_once(recover)) == 100
        assert {job.crashes for job in harness.backend.get(harness.queue, [job.id for job in jobs]).values()} == {1}

    def test_renewal_and_recovery_at_once_leave_each_job_to_one(self, harness: BackendHarness) -> None:
        """A renewed lease is not recovered, and a recovered lease is not renewed."""
        harness.add_many(100, max_retries=5)
        leases = harness.lease(duration=harness.span)
        harness.wait(1.1 * harness.span)

        def race(number: int) -> set[Lease]:
            if number % 2:
                harness.recover(harness.queue)
                return set()
            return set(leases) - set(harness.backend.renew(leases, LONG).refused)

        renewed = _all_at_once(race)
        held = {lease for lease in leases if harness.state(lease.job.id) is JobState.LEASED}
        assert set.intersection(*renewed[::2]) >= held
        assert not harness.backend.complete([Completion(lease=lease) for lease in held])
        assert harness.counts()[JobState.READY] == 100 - len(held)
