"""get and list."""

from __future__ import annotations

import pytest

from scheduler.errors import ConfigError
from scheduler.leases import Completion, Failure
from scheduler.limits import MAX_NAME
from scheduler.states import TERMINAL, JobState
from scheduler.testing.rig import LONG, Rig
from scheduler.testing.situations import in_state


class ReadsContract:
    def test_get_answers_those_that_are_stored(self, rig: Rig) -> None:
        jobs = rig.add_many(3, delay=LONG)
        got = rig.backend.get(rig.queue, [jobs[2].id, "nobody", jobs[0].id])
        assert dict(got) == {jobs[0].id: jobs[0], jobs[2].id: jobs[2]}

    def test_get_of_nothing_is_empty(self, rig: Rig) -> None:
        assert dict(rig.backend.get(rig.queue, [])) == {}
        assert dict(rig.backend.get(rig.new_queue(), ["nobody"])) == {}

    def test_an_id_given_twice_is_answered_once(self, rig: Rig) -> None:
        job = rig.add(delay=LONG)
        assert list(rig.backend.get(rig.queue, [job.id, job.id])) == [job.id]

    @pytest.mark.parametrize("id", ["", "x" * (MAX_NAME + 1), "nul\0", "new\nline", "\ud800"], ids=ascii)
    def test_an_id_that_no_job_can_have_is_absent(self, rig: Rig, id: str) -> None:
        job = rig.add(delay=LONG)
        assert list(rig.backend.get(rig.queue, [id, job.id])) == [job.id]
        for ask in (rig.backend.cancel, rig.backend.requeue):
            (answer,) = ask(rig.queue, [id])
            assert (answer.id, answer.moved, answer.state) == (id, False, None)

    def test_get_takes_many_ids(self, rig: Rig) -> None:
        jobs = rig.add_many(1_500, delay=LONG)
        assert len(rig.backend.get(rig.queue, [job.id for job in jobs])) == 1_500

    @pytest.mark.parametrize("state", list(JobState))
    def test_a_job_is_listed_in_its_state_alone(self, rig: Rig, state: JobState) -> None:
        job, _ = in_state(rig, state)
        listed = {each: list(rig.listed(each)) for each in JobState}
        assert listed == {each: [job] if each is state else [] for each in JobState}

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    @pytest.mark.parametrize("state", [JobState.SCHEDULED, JobState.READY, JobState.LEASED])
    def test_a_walk_finds_each_job_once_whatever_the_page_s_size(self, rig: Rig, state: JobState, limit: int) -> None:
        jobs = rig.add_many(7, **({"delay": LONG} if state is JobState.SCHEDULED else {}))
        rig.promote()
        if state is JobState.LEASED:
            rig.lease()
        assert sorted(job.id for job in rig.listed(state, limit=limit)) == sorted(job.id for job in jobs)

    def test_a_page_is_full_while_more_follow(self, rig: Rig) -> None:
        """Else a caller who shows one page would show nothing of many jobs."""
        rig.add_many(10, delay=LONG)
        page = rig.backend.list(rig.queue, JobState.SCHEDULED, limit=4)
        assert len(page.jobs) == 4
        assert page.cursor is not None

    def test_the_last_page_has_no_cursor(self, rig: Rig) -> None:
        assert rig.backend.list(rig.queue, JobState.READY).cursor is None
        rig.add_many(3, delay=LONG)
        assert rig.backend.list(rig.queue, JobState.SCHEDULED, limit=100).cursor is None

    def test_a_cursor_is_good_for_another_backend_object(self, rig: Rig) -> None:
        """It is plain text that a web page can carry: the same call gives the same page."""
        rig.add_many(5, delay=LONG)
        page = rig.backend.list(rig.queue, JobState.SCHEDULED, limit=2)
        second = rig.backend.list(rig.queue, JobState.SCHEDULED, cursor=page.cursor, limit=2)
        again = rig.backend.list(rig.queue, JobState.SCHEDULED, cursor=page.cursor, limit=2)
        assert isinstance(page.cursor, str)
        assert second == again
        assert not {job.id for job in page.jobs} & {job.id for job in second.jobs}

    @pytest.mark.parametrize("limit", [1, 10])
    @pytest.mark.parametrize("state", [each for each in JobState if each is JobState.DEAD or each not in TERMINAL])
    def test_a_walk_whose_jobs_leave_page_by_page_finds_every_one(self, rig: Rig, state: JobState, limit: int) -> None:
        """As of an operator who requeues, or cancels, all that a walk finds."""
        number = 2 * limit + 5
        jobs = rig.add_many(number, **({"delay": LONG} if state is JobState.SCHEDULED else {}))
        leases = [] if state in (JobState.SCHEDULED, JobState.READY) else list(rig.lease(number))
        if state is JobState.DEAD:
            rig.backend.bury([Failure(lease=lease) for lease in leases])
        elif state is JobState.RETRY_WAIT:
            rig.backend.retry([Failure(lease=lease, delay=LONG) for lease in leases])
        found: list[str] = []
        cursor = None
        for _ in range(number + 1):
            page = rig.backend.list(rig.queue, state, cursor=cursor, limit=limit)
            here = [job.id for job in page.jobs]
            found += here
            if state is JobState.DEAD:
                rig.backend.requeue(rig.queue, here)
            elif state is JobState.LEASED:
                rig.backend.complete([Completion(lease=lease) for lease in leases if lease.job.id in here])
            else:
                rig.backend.cancel(rig.queue, here)
            cursor = page.cursor
            if cursor is None:
                break
        assert sorted(found) == sorted(job.id for job in jobs)

    def test_a_walk_survives_that_its_jobs_leave(self, rig: Rig) -> None:
        """It still ends, and answers only jobs of the state."""
        jobs = rig.add_many(9, delay=LONG)
        page = rig.backend.list(rig.queue, JobState.SCHEDULED, limit=3)
        rig.backend.cancel(rig.queue, [job.id for job in jobs[:6]])
        seen = [*page.jobs]
        while page.cursor is not None:
            page = rig.backend.list(rig.queue, JobState.SCHEDULED, cursor=page.cursor, limit=3)
            assert all(job.state is JobState.SCHEDULED for job in page.jobs)
            seen.extend(page.jobs)
        assert {job.id for job in seen} <= {job.id for job in jobs}

    @pytest.mark.parametrize("cursor", ["", "garbage", "0", "-1", "%00", "ä", "x" * 3_000], ids=ascii)
    def test_a_cursor_that_the_store_did_not_make_is_refused(self, rig: Rig, cursor: str) -> None:
        rig.add_many(3, delay=LONG)
        with pytest.raises(ConfigError) as refusal:
            rig.backend.list(rig.queue, JobState.SCHEDULED, cursor=cursor)
        assert refusal.value.field == "cursor"

    def test_a_cursor_is_good_for_the_list_that_it_was_made_for_alone(self, rig: Rig) -> None:
        """The place of a list of dead jobs means nothing in one of ready jobs, or in another queue."""
        other = rig.new_queue()
        for queue in (rig.queue, other):
            rig.add_many(3, queue=queue, delay=LONG)
            rig.add_many(3, queue=queue)
        pages = {
            (queue, state): rig.backend.list(queue, state, limit=1)
            for queue in (rig.queue, other)
            for state in (JobState.SCHEDULED, JobState.READY)
        }
        for made_for, page in pages.items():
            assert page.cursor is not None
            for queue, state in pages:
                if (queue, state) == made_for:
                    assert rig.backend.list(queue, state, cursor=page.cursor, limit=1).jobs != page.jobs
                    continue
                with pytest.raises(ConfigError) as refusal:
                    rig.backend.list(queue, state, cursor=page.cursor, limit=1)
                assert refusal.value.field == "cursor"

    def test_jobs_of_other_queues_are_not_listed(self, rig: Rig) -> None:
        rig.add(queue=rig.new_queue(), delay=LONG)
        assert list(rig.listed(JobState.SCHEDULED)) == []
