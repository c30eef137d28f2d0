"""get and list."""

from __future__ import annotations

import pytest

from scheduler.errors import ConfigError
from scheduler.leases import Completion, Failure
from scheduler.limits import MAX_NAME
from scheduler.states import TERMINAL, JobState
from scheduler.testing.harness import LONG, BackendHarness
from scheduler.testing.job_states import in_state


class ReadsContract:
    def test_get_returns_the_jobs_that_are_stored(self, harness: BackendHarness) -> None:
        jobs = harness.add_many(3, delay=LONG)
        got = harness.backend.get(harness.queue, [jobs[2].id, "nobody", jobs[0].id])
        assert dict(got) == {jobs[0].id: jobs[0], jobs[2].id: jobs[2]}

    def test_get_of_nothing_is_empty(self, harness: BackendHarness) -> None:
        assert dict(harness.backend.get(harness.queue, [])) == {}
        assert dict(harness.backend.get(harness.new_queue(), ["nobody"])) == {}

    def test_get_returns_an_id_given_twice_once(self, harness: BackendHarness) -> None:
        job = harness.add(delay=LONG)
        assert list(harness.backend.get(harness.queue, [job.id, job.id])) == [job.id]

    @pytest.mark.parametrize("id", ["", "x" * (MAX_NAME + 1), "nul\0", "new\nline", "\ud800"], ids=ascii)
    def test_an_id_that_no_job_can_have_is_absent(self, harness: BackendHarness, id: str) -> None:
        job = harness.add(delay=LONG)
        assert list(harness.backend.get(harness.queue, [id, job.id])) == [job.id]
        for ask in (harness.backend.cancel, harness.backend.requeue):
            (result,) = ask(harness.queue, [id])
            assert (result.id, result.moved, result.state) == (id, False, None)

    def test_get_takes_many_ids(self, harness: BackendHarness) -> None:
        jobs = harness.add_many(1_500, delay=LONG)
        assert len(harness.backend.get(harness.queue, [job.id for job in jobs])) == 1_500

    @pytest.mark.parametrize("state", list(JobState))
    def test_a_job_is_listed_only_in_its_state(self, harness: BackendHarness, state: JobState) -> None:
        job, _ = in_state(harness, state)
        listed = {each: list(harness.listed(each)) for each in JobState}
        assert listed == {each: [job] if each is state else [] for each in JobState}

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    @pytest.mark.parametrize("state", [JobState.SCHEDULED, JobState.READY, JobState.LEASED])
    def test_list_returns_each_job_once_for_any_page_size(
        self, harness: BackendHarness, state: JobState, limit: int
    ) -> None:
        jobs = harness.add_many(7, **({"delay": LONG} if state is JobState.SCHEDULED else {}))
        harness.promote()
        if state is JobState.LEASED:
            harness.lease()
        assert sorted(job.id for job in harness.listed(state, limit=limit)) == sorted(job.id for job in jobs)

    def test_a_page_is_full_while_more_follow(self, harness: BackendHarness) -> None:
        """Otherwise a caller that shows one page could show no jobs although there are many."""
        harness.add_many(10, delay=LONG)
        page = harness.backend.list(harness.queue, JobState.SCHEDULED, limit=4)
        assert len(page.jobs) == 4
        assert page.cursor is not None

    def test_the_last_page_has_no_cursor(self, harness: BackendHarness) -> None:
        assert harness.backend.list(harness.queue, JobState.READY).cursor is None
        harness.add_many(3, delay=LONG)
        assert harness.backend.list(harness.queue, JobState.SCHEDULED, limit=100).cursor is None

    def test_a_cursor_returns_the_same_page_each_time(self, harness: BackendHarness) -> None:
        """A cursor is plain text that a web page can carry. The same call returns the same page."""
        harness.add_many(5, delay=LONG)
        page = harness.backend.list(harness.queue, JobState.SCHEDULED, limit=2)
        second = harness.backend.list(harness.queue, JobState.SCHEDULED, cursor=page.cursor, limit=2)
        again = harness.backend.list(harness.queue, JobState.SCHEDULED, cursor=page.cursor, limit=2)
        assert isinstance(page.cursor, str)
        assert second == again
        assert not {job.id for job in page.jobs} & {job.id for job in second.jobs}

    @pytest.mark.parametrize("limit", [1, 10])
    @pytest.mark.parametrize("state", [each for each in JobState if each is JobState.DEAD or each not in TERMINAL])
    def test_list_finds_every_job_if_each_page_is_moved_before_the_next(
        self, harness: BackendHarness, state: JobState, limit: int
    ) -> None:
        """An operator may requeue or cancel each page before reading the next one."""
        number = 2 * limit + 5
        jobs = harness.add_many(number, **({"delay": LONG} if state is JobState.SCHEDULED else {}))
        leases = [] if state in (JobState.SCHEDULED, JobState.READY) else list(harness.lease(number))
        if state is JobState.DEAD:
            harness.backend.bury([Failure(lease=lease) for lease in leases])
        elif state is JobState.RETRY_WAIT:
            harness.backend.retry([Failure(lease=lease, delay=LONG) for lease in leases])
        found: list[str] = []
        cursor = None
        for _ in range(number + 1):
            page = harness.backend.list(harness.queue, state, cursor=cursor, limit=limit)
            here = [job.id for job in page.jobs]
            found += here
            if state is JobState.DEAD:
                harness.backend.requeue(harness.queue, here)
            elif state is JobState.LEASED:
                harness.backend.complete([Completion(lease=lease) for lease in leases if lease.job.id in here])
            else:
                harness.backend.cancel(harness.queue, here)
            cursor = page.cursor
            if cursor is None:
                break
        assert sorted(found) == sorted(job.id for job in jobs)

    def test_a_list_ends_if_its_jobs_change_state_meanwhile(self, harness: BackendHarness) -> None:
        """The list still ends, and has only jobs in the state."""
        jobs = harness.add_many(9, delay=LONG)
        page = harness.backend.list(harness.queue, JobState.SCHEDULED, limit=3)
        harness.backend.cancel(harness.queue, [job.id for job in jobs[:6]])
        seen = [*page.jobs]
        while page.cursor is not None:
            page = harness.backend.list(harness.queue, JobState.SCHEDULED, cursor=page.cursor, limit=3)
            assert all(job.state is JobState.SCHEDULED for job in page.jobs)
            seen.extend(page.jobs)
        assert {job.id for job in seen} <= {job.id for job in jobs}

    @pytest.mark.parametrize("cursor", ["", "garbage", "0", "-1", "%00", "ä", "x" * 3_000], ids=ascii)
    def test_a_cursor_that_the_store_did_not_make_is_refused(self, harness: BackendHarness, cursor: str) -> None:
        harness.add_many(3, delay=LONG)
        with pytest.raises(ConfigError) as refusal:
            harness.backend.list(harness.queue, JobState.SCHEDULED, cursor=cursor)
        assert refusal.value.field == "cursor"

    def test_a_cursor_is_refused_for_another_queue_or_state(self, harness: BackendHarness) -> None:
        """A position in one list means nothing in the list of another state or queue."""
        other = harness.new_queue()
        for queue in (harness.queue, other):
            harness.add_many(3, queue=queue, delay=LONG)
            harness.add_many(3, queue=queue)
        pages = {
            (queue, state): harness.backend.list(queue, state, limit=1)
            for queue in (harness.queue, other)
            for state in (JobState.SCHEDULED, JobState.READY)
        }
        for made_for, page in pages.items():
            assert page.cursor is not None
            for queue, state in pages:
                if (queue, state) == made_for:
                    assert harness.backend.list(queue, state, cursor=page.cursor, limit=1).jobs != page.jobs
                    continue
                with pytest.raises(ConfigError) as refusal:
                    harness.backend.list(queue, state, cursor=page.cursor, limit=1)
                assert refusal.value.field == "cursor"

    def test_jobs_of_other_queues_are_not_listed(self, harness: BackendHarness) -> None:
        harness.add(queue=harness.new_queue(), delay=LONG)
        assert list(harness.listed(JobState.SCHEDULED)) == []
