"""Many threads at once: each move is atomic, whoever else moves (guarantees 8 and 23)."""

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
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import ONCE

_THREADS = 6

T = TypeVar("T")


def _all_at_once(work: Callable[[int], T]) -> Sequence[T]:
    """*work* in so many threads that begin together; what it raises is raised here."""
    ready = Barrier(_THREADS, timeout=30.0)

    def begin(number: int) -> T:
        ready.wait()
        return work(number)

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="contract") as pool:
        return [future.result(60.0) for future in [pool.submit(begin, number) for number in range(_THREADS)]]


class ThreadsContract:
    def test_each_job_is_leased_by_one_of_many(self, rig: Rig) -> None:
        jobs = rig.add_many(300)
        rig.promote()

        def take(number: int) -> Sequence[Lease]:
            taken: list[Lease] = []
            while leases := rig.backend.lease(
                [rig.queue], token=new_token(), worker_id=f"w{number}", duration=LONG, limit=7
            ):
                taken.extend(leases)
            return taken

        leases = [lease for taken in _all_at_once(take) for lease in taken]
        # Told in few words: pytest takes minutes to show how two counters of hundreds differ.
        twice = [id for id, count in Counter(lease.job.id for lease in leases).items() if count > 1]
        assert not twice, f"{len(twice)} jobs were leased more than once"
        assert {lease.job.id for lease in leases} >= {job.id for job in jobs}
        assert not rig.backend.complete([Completion(lease=lease) for lease in leases])

    def test_a_job_enqueued_by_many_is_stored_once(self, rig: Rig) -> None:
        def enqueue(number: int) -> Sequence[bool]:
            ids = random.sample(range(50), 50)
            return [rig.enqueue(rig.new(id=f"{id}", payload=b"%d" % number))[0].is_new for id in ids]

        answers = [is_new for answer in _all_at_once(enqueue) for is_new in answer]
        assert answers.count(True) == 50
        assert len(rig.lease()) == 50

    def test_a_lease_is_settled_by_one_of_many_and_overlapping_batches_do_not_deadlock(self, rig: Rig) -> None:
        """In any order, by any mix of moves: each lease is taken once, and every job ends in the state of that move."""
        rig.add_many(200)
        leases = rig.lease()

        def settle(number: int) -> Sequence[Lease]:
            mine = random.sample(leases, len(leases))
            rig.backend.renew(mine, LONG)
            if number % 3 == 0:
                refused = rig.backend.complete([Completion(lease=lease) for lease in mine])
            elif number % 3 == 1:
                refused = rig.backend.bury([Failure(lease=lease, error=ONCE) for lease in mine])
            else:
                refused = rig.backend.retry([Failure(lease=lease, delay=LONG, error=ONCE) for lease in mine])
            return list(set(leases) - set(refused))

        taken = _all_at_once(settle)
        takers = Counter(lease.job.id for each in taken for lease in each)
        assert not [id for id, count in takers.items() if count > 1], "leases were settled more than once"
        assert len(takers) == len(leases)
        states = (JobState.SUCCEEDED, JobState.DEAD, JobState.RETRY_WAIT)
        counts = rig.counts()
        for number, state in enumerate(states):
            assert counts[state] == sum(len(each) for each in taken[number::3])

    def test_recovery_by_many_counts_each_crash_once(self, rig: Rig) -> None:
        jobs = rig.add_many(100, max_retries=5)
        rig.lease(duration=rig.span)
        rig.wait(1.1 * rig.span)

        def recover(_: int) -> int:
            found = 0
            for _attempt in range(100):
                recovery = rig.backend.recover_expired([rig.queue], 10)
                found += recovery.ready
                if recovery.next_expiry is None:
                    break
            return found

        assert sum(_all_at_once(recover)) == 100
        assert {job.crashes for job in rig.backend.get(rig.queue, [job.id for job in jobs]).values()} == {1}

    def test_renewal_and_recovery_at_once_leave_each_job_to_one(self, rig: Rig) -> None:
        """A lease that was renewed in time is not recovered, and one that was recovered is not renewed."""
        rig.add_many(100, max_retries=5)
        leases = rig.lease(duration=rig.span)
        rig.wait(1.1 * rig.span)

        def race(number: int) -> set[Lease]:
            if number % 2:
                rig.recover(rig.queue)
                return set()
            return set(leases) - set(rig.backend.renew(leases, LONG).refused)

        renewed = _all_at_once(race)
        held = {lease for lease in leases if rig.state(lease.job.id) is JobState.LEASED}
        assert set.intersection(*renewed[::2]) >= held
        assert not rig.backend.complete([Completion(lease=lease) for lease in held])
        assert rig.counts()[JobState.READY] == 100 - len(held)
