"""Formats of results: lines of text or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

from benchmarks.measure import Result


def as_json(result: Result) -> str:
    """Return a JSON object: measure, value, unit, baseline, baseline_value and ratio. The last three may be null."""
    fields = {
        "measure": result.measure,
        "value": result.value,
        "unit": result.unit,
        "baseline": result.baseline,
        "baseline_value": result.baseline_value,
        "ratio": result.ratio,
    }
    return json.dumps(fields, ensure_ascii=False)


def as_text(result: Result) -> str:
    """Return a line with the medians, each with minimum and maximum."""
    line = f"{result.measure:<32} {_range(result.readings, result.value):>32} {result.unit:<10}"
    if result.baseline is not None and result.baseline_value is not None and result.ratio is not None:
        line += f" = {result.ratio:5.2f} × {result.baseline} {_range(result.baseline_readings, result.baseline_value)}"
    return line.rstrip()


def _range(readings: list[float], median: float) -> str:
    if len(readings) == 1:
        return _figure(median)
    return f"{_figure(median)} ({_figure(min(readings))} to {_figure(max(readings))})"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


FORMATS: dict[bool, Callable[[Result], str]] = {True: as_json, False: as_text}
"""Function that formats a result, by whether --json is set."""
