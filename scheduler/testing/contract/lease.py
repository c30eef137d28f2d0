"""lease: ready → leased."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from scheduler.backend import Backend
from scheduler.identity import new_token
from scheduler.leases import Completion
from scheduler.states import JobState
from scheduler.testing.harness import LONG, BackendHarness


class LeaseContract:
    def test_a_lease_names_its_holder_and_its_end(self, harness: BackendHarness) -> None:
        job = harness.add(payload=b"work", metadata={"a": "1"})
        token = new_token()
        (lease,) = harness.lease_once(token=token, worker_id="worker ä", duration=30.0)
        stored = harness.job(job.id)
        assert lease.token == token
        assert lease.job == stored
        assert (stored.state, stored.lease_owner, stored.attempts) == (JobState.LEASED, "worker ä", 1)
        assert stored.lease_expires_at == lease.expires_at
        assert (stored.payload, dict(stored.metadata)) == (b"work", {"a": "1"})
        if harness.clock:
            late = lease.expires_at - harness.clock.now() - timedelta(seconds=30)
            assert abs(late) <= timedelta(milliseconds=1)

    def test_a_leased_job_is_not_leased_again(self, harness: BackendHarness) -> None:
        harness.add_many(5)
        assert len({lease.job.id for lease in harness.lease()}) == 5
        assert harness.lease(worker_id="another") == []

    def test_at_most_limit_are_leased(self, harness: BackendHarness) -> None:
        harness.add_many(10)
        leases = harness.lease_once(3)
        assert 1 <= len(leases) <= 3
        assert harness.counts()[JobState.LEASED] == len(leases)

    def test_a_lease_call_is_empty_only_if_no_job_is_ready(self, harness: BackendHarness) -> None:
        """A call with limit 1 leases a job as long as any is ready, in any partition."""
        harness.add_many(12)
        for left in range(12, 0, -1):
            assert len(harness.lease_once(1)) == 1, f"{left} were ready"
        assert list(harness.lease_once(1)) == []

    def test_a_paused_queue_does_not_hide_ready_jobs_of_others(self, harness: BackendHarness) -> None:
        paused = harness.new_queue()
        harness.add_many(30, queue=paused)
        harness.backend.pause(paused)
        harness.add_many(20)
        for left in range(20, 0, -1):
            assert len(harness.lease_once(1, queues=[paused, harness.queue])) == 1, f"{left} were ready"
        assert list(harness.lease_once(1, queues=[paused, harness.queue])) == []

    def test_an_unknown_queue_is_empty(self, harness: BackendHarness) -> None:
        assert list(harness.lease_once(queues=[harness.new_queue(), harness.new_queue()])) == []

    def test_only_the_named_queues_are_leased_from(self, harness: BackendHarness) -> None:
        other = harness.new_queue()
        harness.add(queue=other)
        assert harness.lease(queues=[harness.queue]) == []
        assert len(harness.lease(queues=[harness.queue, other])) == 1

    def test_a_queue_named_twice_is_one_queue(self, harness: BackendHarness) -> None:
        harness.add_many(4)
        leases = harness.lease(queues=[harness.queue, harness.queue])
        assert len({lease.job.id for lease in leases}) == len(leases) == 4

    def test_queues_are_served_in_turn(self, harness: BackendHarness) -> None:
        """A queue with a long backlog does not delay the others, even if it is named first."""
        queues = [harness.queue, harness.new_queue(), harness.new_queue()]
        harness.add_many(200, queue=queues[0])
        for queue in queues[1:]:
            harness.add_many(10, queue=queue)
        served = Counter(lease.job.queue for _ in range(30) for lease in harness.lease_once(1, queues=queues))
        assert all(served[queue] >= 5 for queue in queues), served

    def test_repeating_a_lease_call_returns_the_same_jobs(self, harness: BackendHarness) -> None:
        """After a lost reply, no job is leased twice, and attempts are counted once."""
        harness.add_many(3)
        token = new_token()
        first = harness.lease_once(100, token=token)
        repeated = harness.lease_once(100, token=token)
        assert set(first) <= set(repeated)
        assert len(repeated) == len(set(repeated)) <= 3
        assert {harness.job(lease.job.id).attempts for lease in repeated} == {1}
        assert not harness.backend.complete([Completion(lease=lease) for lease in repeated])

    def test_repeating_a_lease_call_on_another_backend_returns_the_same_jobs(
        self, harness: BackendHarness, second: Backend
    ) -> None:
        harness.add_many(20)
        token = new_token()
        first = harness.lease_once(100, token=token)
        leased = second.lease([harness.queue], token=token, worker_id="contract", duration=LONG, limit=100)
        assert set(first) <= set(leased)
        assert len(leased) <= 20

    def test_repeating_a_lease_call_stays_within_its_limit(self, harness: BackendHarness) -> None:
        harness.add_many(20)
        token = new_token()
        first = harness.lease_once(4, token=token)
        repeated = harness.lease_once(4, token=token)
        assert set(first) <= set(repeated)
        assert len(repeated) <= 4
        assert harness.counts()[JobState.LEASED] == len(repeated)

    def test_repeating_a_lease_call_returns_only_jobs_still_held(self, harness: BackendHarness) -> None:
        harness.add_many(2)
        token = new_token()
        held = list(harness.lease_once(2, token=token))
        done = held.pop()
        assert not harness.backend.complete([Completion(lease=done)])
        repeated = harness.lease_once(2, token=token)
        assert done not in repeated
        assert set(held) <= set(repeated)

    def test_a_token_under_which_nothing_is_held_begins_a_new_call(self, harness: BackendHarness) -> None:
        token = new_token()
        harness.add()
        (lease,) = harness.lease_once(token=token)
        harness.backend.release([lease])
        (again,) = harness.lease_once(token=token)
        assert again.job.id == lease.job.id
        assert harness.job(lease.job.id).attempts == 1

    def test_different_calls_share_nothing(self, harness: BackendHarness) -> None:
        harness.add_many(10)
        first, second = harness.lease_once(4), harness.lease_once(4)
        assert not {lease.job.id for lease in first} & {lease.job.id for lease in second}

    def test_every_lease_counts_as_an_attempt(self, harness: BackendHarness) -> None:
        job = harness.add(max_retries=5)
        for attempt in (1, 2, 3):
            lease = harness.lease_one(duration=harness.span)
            assert (lease.job.id, lease.job.attempts) == (job.id, attempt)
            harness.advance(1.1 * harness.span)
            assert harness.recover() == (1, 0)

    def test_a_backlog_is_leased_whole_and_each_job_once(self, harness: BackendHarness) -> None:
        jobs = harness.add_many(2_500)
        leases = harness.lease(5_000)
        assert len(leases) == 2_500
        assert {lease.job.id for lease in leases} == {job.id for job in jobs}

    def test_long_and_short_leases_expire_on_time(self, harness: BackendHarness) -> None:
        long, short = harness.leased(LONG), harness.leased(harness.span)
        harness.advance(1.1 * harness.span)
        assert harness.recover() == (1, 0)
        assert harness.state(long.job.id) is JobState.LEASED
        assert harness.state(short.job.id) is JobState.READY
