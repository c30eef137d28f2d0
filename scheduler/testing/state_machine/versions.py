"""Rules that change the versions of queues, for backends with the ability `TopologyAdmin`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from scheduler.abilities import Finished, TopologyAdmin
from scheduler.errors import TopologyError
from scheduler.states import TERMINAL, JobState
from scheduler.testing.state_machine.drive import Drive, queues

_can = precondition(lambda machine: isinstance(machine.harness.backend, TopologyAdmin))


class Versions(Drive):
    """Rules for promote_queue_version and complete_draining_version."""

    @_can
    @rule(place=queues, skipped=st.integers(0, 1), partitions=st.sampled_from([1, 2, 5]))
    def promote_version(self, place: int, skipped: int, partitions: int) -> None:
        """Promote a new version of a queue."""
        queue = self.queues[place]
        version = self.model.active(queue) + 1 + skipped
        topology = cast("TopologyAdmin", self.harness.backend).promote_queue_version(queue, version, partitions)
        self.model.versions[queue].append(version)
        assert [each.version for each in topology.versions] == self.model.versions[queue]
        assert (topology.active.version, topology.active.partitions) == (version, partitions)

    @_can
    @rule(place=queues, which=st.integers(0, 3), finished=st.sampled_from(["refuse", "purge", "move"]))
    def complete_version(self, place: int, which: int, finished: Finished) -> None:
        """Complete any version, the active one included, which is always refused."""
        queue = self.queues[place]
        versions = self.model.versions[queue]
        version = versions[which % len(versions)]
        admin = cast("TopologyAdmin", self.harness.backend)
        counts = self._in_the_way(queue, version, finished)
        if version == self.model.active(queue) or counts:
            with pytest.raises(TopologyError) as refusal:
                admin.complete_draining_version(queue, version, finished=finished)
            counts_given = {JobState(state): count for state, count in refusal.value.counts.items() if count}
            assert version == self.model.active(queue) or counts.items() <= counts_given.items()
            return
        topology = admin.complete_draining_version(queue, version, finished=finished)
        versions.remove(version)
        assert [each.version for each in topology.versions] == versions
        self._take_along(queue, version, finished)

    def _in_the_way(self, queue: str, version: int, finished: Finished) -> Mapping[JobState, int]:
        states = set(JobState) if finished == "refuse" else set(JobState) - TERMINAL
        jobs = [row.job for row in self.model.among([queue], *states) if row.job.queue_version == version]
        return {state: sum(job.state is state for job in jobs) for state in {job.state for job in jobs}}

    def _take_along(self, queue: str, version: int, finished: Finished) -> None:
        for row in self.model.among([queue], *TERMINAL):
            if row.job.queue_version != version:
                continue
            if finished == "purge":
                del self.model.rows[queue, row.job.id]
            else:
                stored = self.harness.job(row.job.id, queue=queue)
                row.job = replace(row.job, queue_version=self.model.active(queue), partition=stored.partition)
