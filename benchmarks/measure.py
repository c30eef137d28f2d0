"""What a benchmark measures, and how measure and floor take turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Unit:
    """How a reading is shown. Readings of time are seconds an item, whatever they are shown as."""

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
class Floor:
    """The least that any program would pay; `run` answers seconds an item, or several by the measure's suffixes."""

    name: str
    run: Callable[[], Reading]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """
    Something to measure. `run` answers one reading, or several by a suffix of the name.

    unit: of all readings, or one for each suffix. floor: measured before each repeat, and shown in the same unit.
    """

    name: str
    unit: Unit | Mapping[str, Unit]
    run: Callable[[], Reading]
    floor: Floor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All readings of one measure, in its unit, and those of its floor."""

    measure: str
    unit: str
    readings: list[float] = field(default_factory=list)
    floor: str | None = None
    floor_readings: list[float] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The median of the repeats."""
        return statistics.median(self.readings)

    @property
    def floor_value(self) -> float | None:
        """The median of the floor's repeats, None where there is no floor."""
        return statistics.median(self.floor_readings) if self.floor_readings else None

    @property
    def ratio(self) -> float | None:
        """Value over floor: at rates more is better, at times less is."""
        return self.value / self.floor_value if self.floor_value else None


def measured(measures: Iterable[Measure], repeat: int) -> Iterator[Result]:
    """Measure each *repeat* times, its floor before each time, and answer its results as soon as they are there."""
    for measure in measures:
        yield from _results(measure, repeat)


def _results(measure: Measure, repeat: int) -> Sequence[Result]:
    results: dict[str, Result] = {}
    for _ in range(repeat):
        floor = None if measure.floor is None else measure.floor.run()
        reading = measure.run()
        for suffix, value in (reading if isinstance(reading, Mapping) else {"": reading}).items():
            unit = measure.unit[suffix] if isinstance(measure.unit, Mapping) else measure.unit
            name = f"{measure.name}_{suffix}" if suffix else measure.name
            floor_name = None if measure.floor is None else measure.floor.name
            result = results.setdefault(suffix, Result(measure=name, unit=unit.name, floor=floor_name))
            result.readings.append(unit.of(value))
            if floor is not None:
                result.floor_readings.append(unit.of(floor[suffix] if isinstance(floor, Mapping) else floor))
    return list(results.values())


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile, as readings by suffix. The latter is the worst of fewer than a hundred."""
    ordered = sorted(seconds)
    return {"p50": statistics.median(ordered), "p99": ordered[-1 - len(ordered) // 100]}
