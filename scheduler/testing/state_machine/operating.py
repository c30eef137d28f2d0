"""Rules for the calls of an operator."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from scheduler.states import MOVES, JobState
from scheduler.testing.state_machine.drive import ids, limits, queues
from scheduler.testing.state_machine.settling import Settling

_PURGEABLE = sorted(set(JobState) - {JobState.LEASED})


class Operating(Settling):
    """Rules for cancel, requeue, purge, pause, resume and list."""

    @rule(
        move=st.sampled_from(["cancel", "requeue"]),
        place=queues,
        wanted=st.lists(ids, max_size=4),
        fitting=st.booleans(),
    )
    def ask(self, move: str, place: int, wanted: list[str], *, fitting: bool) -> None:
        """Cancel or requeue jobs in any state, with absent and repeated ids, and all jobs for which it is allowed."""
        queue = self.queues[place]
        if fitting:
            if move == "requeue" and not self.model.among([queue], JobState.DEAD):
                self.fail([0], 0.0, None, stale=False, counted=True, bury=True)
            wanted = [*wanted, *(row.job.id for row in self.model.among([queue], *MOVES[move].sources))]
        results = (self.harness.backend.cancel if move == "cancel" else self.harness.backend.requeue)(queue, wanted)
        assert list(results) == [self.model.ask(move, queue, id, self.now) for id in wanted]

    @rule(place=queues, state=st.sampled_from(_PURGEABLE), limit=limits)
    def purge(self, place: int, state: JobState, limit: int) -> None:
        """Purge with a limit. The store chooses which jobs are deleted."""
        queue = self.queues[place]
        rows = self.model.among([queue], state)
        gone = self.harness.backend.purge(queue, state, limit)
        kept = self.harness.backend.get(queue, [row.job.id for row in rows])
        missing = [row.job.id for row in rows if row.job.id not in kept]
        assert gone == len(missing) <= limit
        assert bool(gone) == bool(rows)
        for id in missing:
            del self.model.rows[queue, id]

    @rule(place=queues, pause=st.booleans())
    def pause_or_resume(self, place: int, *, pause: bool) -> None:
        """Pause or resume a queue, also if it is paused or resumed already."""
        queue = self.queues[place]
        if pause:
            self.harness.backend.pause(queue)
            self.model.paused.add(queue)
        else:
            self.harness.backend.resume(queue)
            self.model.paused.discard(queue)

    @rule(place=queues, limit=st.integers(1, 3))
    def walk(self, place: int, limit: int) -> None:
        """List jobs in small pages and check that each is found once."""
        queue = self.queues[place]
        for state in JobState:
            walked = sorted(job.id for job in self.harness.listed(state, queue=queue, limit=limit))
            assert walked == sorted(row.job.id for row in self.model.among([queue], state))
