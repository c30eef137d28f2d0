"""What must be true after a run, from the ledgers and the store alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import cast

from chaos.jobs import KINDS, QUEUES
from chaos.ledger import Event, read
from scheduler.backend import Backend
from scheduler.jobs import Job
from scheduler.states import JobState

_CHUNK = 500
_DOOMED = {kind.name for kind in KINDS if kind.doomed}
_LONG_LIVED = 30.0  # seconds: shorter lives say nothing of leaks
_WARM_UP = 10.0  # seconds
_MEMORY = 24 * 1024 * 1024  # bytes that a process may grow by
_FEW = 6  # threads or descriptors that may come and go

Run = tuple[str, str]  # process, job


@dataclass(slots=True)
class Evidence:
    """The ledgers, put in order."""

    acknowledged: dict[str, str] = field(default_factory=dict)  # job → kind
    repeated: set[str] = field(default_factory=set)  # jobs whose enqueue was made more than once
    tokens: dict[Run, set[str]] = field(default_factory=lambda: defaultdict(set))
    began: Counter[Run] = field(default_factory=Counter)
    returned: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # job → processes
    done: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))  # proof → verdicts
    refused: set[tuple[str, str]] = field(default_factory=set)
    refused_then_done: list[tuple[str, str]] = field(default_factory=list)
    excused: set[Run] = field(default_factory=set)  # runs whose outcome may rightly be missing
    ended_in_order: set[str] = field(default_factory=set)
    samples: dict[str, list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))

    @classmethod
    def of(cls, events: Iterable[Event]) -> Evidence:
        """Read all *events*."""
        evidence = cls()
        for event in events:
            evidence._take(event)
        return evidence

    def _take(self, event: Event) -> None:
        process, fields = event.process, event.fields
        if event.name == "acknowledged":
            ids, kinds = cast("list[str]", fields["ids"]), cast("list[str]", fields["kinds"])
            self.acknowledged.update(zip(ids, kinds, strict=True))
            if fields["repeated"]:
                self.repeated.update(ids)
        elif event.name == "leased":
            for job in cast("list[str]", fields["ids"]):
                self.tokens[process, job].add(cast("str", fields["token"]))
        elif event.name == "began":
            self.began[process, cast("str", fields["id"])] += 1
        elif event.name == "ended":
            self._take_end(process, fields)
        elif event.name in ("settled", "unknown", "not renewed"):
            self._take_settle(process, fields)
        elif event.name == "bye":
            if not fields["abandoned"]:
                self.ended_in_order.add(process)
        elif event.name == "sample":
            self.samples[process].append(cast("dict[str, float]", fields))

    def _take_end(self, process: str, fields: dict[str, object]) -> None:
        job = cast("str", fields["id"])
        if fields["how"] == "returned":
            self.returned[job].append(process)
        if fields["cancelled"] is not None:
            self.excused.add((process, job))  # timed out, lost its lease, or was stopped

    def _take_settle(self, process: str, fields: dict[str, object]) -> None:
        for job, _token in cast("list[list[str]]", fields.get("leases", [])):
            self.excused.add((process, job))  # the answer, or the lease, was lost
        for job, token in cast("list[list[str]]", fields.get("refused", [])):
            self.refused.add((job, token))
            self.excused.add((process, job))
        for job, token in cast("list[list[str]]", fields.get("done", [])):
            if (job, token) in self.refused:
                self.refused_then_done.append((job, token))
            self.done[job, token].append(cast("str", fields["verdict"]))


def prove(folder: Path, backend: Backend) -> list[str]:
    """All that is wrong, in words; nothing is the proof."""
    evidence = Evidence.of(read(folder))
    jobs = _stored(backend)
    return [
        *_all_ended_as_they_should(evidence, jobs),
        *_one_state_each(jobs),
        *_tokens_were_obeyed(evidence),
        *_runs_had_leases(evidence),
        *_attempts_were_bounded(jobs),
        *_duplicates_have_reasons(evidence),
        *_processes_stayed_flat(evidence),
    ]


def _stored(backend: Backend) -> list[Job]:
    jobs: list[Job] = []
    for queue in QUEUES:
        for state in JobState:
            cursor: str | None = None
            while True:
                page = backend.list(queue, state, cursor=cursor, limit=_CHUNK)
                jobs += page.jobs
                cursor = page.cursor
                if cursor is None:
                    break
    return jobs


def _all_ended_as_they_should(evidence: Evidence, jobs: list[Job]) -> Iterable[str]:
    states = {f"{job.queue}/{job.id}": job.state for job in jobs}
    for name, kind in evidence.acknowledged.items():
        wanted = JobState.DEAD if kind in _DOOMED else JobState.SUCCEEDED
        if name not in states:
            yield f"lost: {name} ({kind}) was acknowledged and is not there"
        elif states[name] is not wanted:
            yield f"{name} ({kind}) is {states[name]}, not {wanted}"


def _one_state_each(jobs: list[Job]) -> Iterable[str]:
    for (queue, id), count in Counter((job.queue, job.id) for job in jobs).items():
        if count > 1:
            yield f"{queue}/{id} is listed {count} times"


def _tokens_were_obeyed(evidence: Evidence) -> Iterable[str]:
    for proof in evidence.refused_then_done:
        yield f"the token of {proof} took effect after it had been refused"
    completions: Counter[str] = Counter()
    for (job, token), verdicts in evidence.done.items():
        if len(verdicts) > 1:
            yield f"the token {token} of {job} took effect {len(verdicts)} times: {verdicts}"
        completions[job] += verdicts.count("complete")
    for job, count in completions.items():
        if count > 1:
            yield f"{job} was completed {count} times"


def _runs_had_leases(evidence: Evidence) -> Iterable[str]:
    for run, count in evidence.began.items():
        if count > len(evidence.tokens.get(run, ())):
            yield f"{run} began {count} times with {len(evidence.tokens.get(run, ()))} leases"


def _attempts_were_bounded(jobs: list[Job]) -> Iterable[str]:
    for job in jobs:
        if job.attempts > job.max_retries + 1:
            yield f"{job.queue}/{job.id} had {job.attempts} attempts with max_retries {job.max_retries}"


def _duplicates_have_reasons(evidence: Evidence) -> Iterable[str]:
    for job, processes in evidence.returned.items():
        unexcused = [
            process
            for process in processes
            if (process, job) not in evidence.excused and process in evidence.ended_in_order
        ]
        # One run is the one that counts; each other one has lost its lease, its answer, its time or its process.
        if len(unexcused) > 1:
            yield f"{job} returned {len(unexcused)} times without a reason, in {unexcused}"


def _processes_stayed_flat(evidence: Evidence) -> Iterable[str]:
    for process, samples in evidence.samples.items():
        lived = samples[-1]["at"] - samples[0]["at"]
        if lived < _LONG_LIVED:
            continue
        warm = [one for one in samples if one["at"] - samples[0]["at"] >= _WARM_UP]
        third = max(1, len(warm) // 3)
        for what, most in (("memory", _MEMORY), ("threads", _FEW), ("descriptors", _FEW)):
            grown = median(one[what] for one in warm[-third:]) - median(one[what] for one in warm[:third])
            if grown > most:
                yield f"{process}: {what} grew by {grown:g} in {lived:.0f} s"
