"""Queue statistics. Counts are exact up to a bound: an exact count of a million rows takes half a second."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.queues import EXACT_COUNT, QueueStats
from scheduler.states import JobState

CAP = EXACT_COUNT + 1
"""The most rows that are counted for a state. For SCHEDULED, twice as many, because its count includes retries."""


def queue_stats(queue: str, *, paused: bool, found: Mapping[JobState, int], oldest: int | None) -> QueueStats:
    """
    Return the statistics of a queue.

    Args:
        queue: the name of the queue.
        paused: whether the queue is paused.
        found: the number of rows counted for each state. SCHEDULED includes the jobs that wait for a retry, because
            no index distinguishes them.
        oldest: microseconds since the longest-waiting ready job became ready, None = no job is ready.
    """
    counts = {**found, JobState.SCHEDULED: max(0, found[JobState.SCHEDULED] - found[JobState.RETRY_WAIT])}
    capped = {state for state, number in counts.items() if number > EXACT_COUNT}
    if JobState.RETRY_WAIT in capped:  # the difference above is then not exact
        capped.add(JobState.SCHEDULED)
    return QueueStats(
        queue=queue,
        version=1,
        partitions=1,
        paused=paused,
        counts={state: min(counts[state], EXACT_COUNT) for state in JobState},
        capped=frozenset(capped),
        oldest_ready_age=None if oldest is None else oldest / 1_000_000,
    )
