"""Counts that are exact up to a bound, since exact ones over a million rows take half a second."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.queues import EXACT_COUNT, QueueStats
from scheduler.states import JobState

CAP = EXACT_COUNT + 1
"""At most so many rows of a state are counted; in scheduled, twice as many, since it counts retries as well."""


def queue_stats(queue: str, *, paused: bool, found: Mapping[JobState, int], oldest: int | None) -> QueueStats:
    """
    Return the statistics of a queue.

    found: capped numbers of rows; SCHEDULED includes those that wait for a retry, since no index tells them apart.
    oldest: microseconds since the longest-waiting ready job became ready, None = none is ready.
    """
    counts = {**found, JobState.SCHEDULED: max(0, found[JobState.SCHEDULED] - found[JobState.RETRY_WAIT])}
    capped = {state for state, number in counts.items() if number > EXACT_COUNT}
    if JobState.RETRY_WAIT in capped:  # then it is unknown how many of the rest are scheduled
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
