"""Measures of a benchmark, and their alternation with baselines."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Unit:
    """Unit in which readings are displayed. `of` converts a reading; readings of times are in seconds per item."""

    name: str
    of: Callable[[float], float]


JOBS_PER_SECOND = Unit("jobs/s", lambda seconds: 1.0 / seconds)
MICROSECONDS = Unit("µs/job", lambda seconds: seconds * 1e6)
MILLISECONDS = Unit("ms", lambda seconds: seconds * 1e3)
CALLS_PER_SECOND = Unit("calls/s", float)
SWITCHES_PER_SECOND = Unit("switches/s", float)
PERCENT_OF_A_CORE = Unit("% of a core", lambda share: share * 100.0)

Reading = float | Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The least that any program would cost. `run` returns one reading, or one for each suffix of the measure."""

    name: str
    run: Callable[[], Reading]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """
    Something to measure. `run` returns one reading, or several, each with a suffix of the measure's name.

    unit: one for all readings, or one for each suffix. baseline: run before each repeat, displayed in the same unit.
    """

    name: str
    unit: Unit | Mapping[str, Unit]
    run: Callable[[], Reading]
    baseline: Baseline | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Readings of one measure and of its baseline, in the unit of the measure."""

    measure: str
    unit: str
    readings: list[float] = field(default_factory=list)
    baseline: str | None = None
    baseline_readings: list[float] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The median of the repeats."""
        return statistics.median(self.readings)

    @property
    def baseline_value(self) -> float | None:
        """The median of the baseline's repeats. None if there is no baseline."""
        return statistics.median(self.baseline_readings) if self.baseline_readings else None

    @property
    def ratio(self) -> float | None:
        """The value divided by that of the baseline: higher is better for rates, lower for times."""
        return self.value / self.baseline_value if self.baseline_value else None


def measured(measures: Iterable[Measure], repeat: int) -> Iterator[Result]:
    """Run each measure *repeat* times, with its baseline before each repeat, and yield its results."""
    for measure in measures:
        yield from _results(measure, repeat)


def _results(measure: Measure, repeat: int) -> Sequence[Result]:
    results: dict[str, Result] = {}
    for _ in range(repeat):
        baseline = None if measure.baseline is None else measure.baseline.run()
        reading = measure.run()
        for suffix, value in (reading if isinstance(reading, Mapping) else {"": reading}).items():
            unit = measure.unit[suffix] if isinstance(measure.unit, Mapping) else measure.unit
            name = f"{measure.name}_{suffix}" if suffix else measure.name
            baseline_name = None if measure.baseline is None else measure.baseline.name
            result = results.setdefault(suffix, Result(measure=name, unit=unit.name, baseline=baseline_name))
            result.readings.append(unit.of(value))
            if baseline is not None:
                result.baseline_readings.append(
                    unit.of(baseline[suffix] if isinstance(baseline, Mapping) else baseline)
                )
    return list(results.values())


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 99th percentile by suffix. Of fewer than 100 values the latter is the maximum."""
    ordered = sorted(seconds)
    return {"p50": statistics.median(ordered), "p99": ordered[-1 - len(ordered) // 100]}
