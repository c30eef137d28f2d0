"""How readings become results."""

import json

import pytest

from benchmarks.measure import JOBS_PER_SECOND, MICROSECONDS, MILLISECONDS, Baseline, Measure, measured, quantiles
from benchmarks.report import as_json, as_text


def taking(*values):
    readings = iter(values)
    return lambda: next(readings)


def test_the_value_is_the_median_and_the_ratio_is_of_medians():
    measure = Measure(
        name="m",
        unit=MICROSECONDS,
        run=taking(3e-6, 1e-6, 8e-6),
        baseline=Baseline(name="f", run=taking(2e-6, 1e-6, 9e-6)),
    )
    (result,) = measured([measure], 3)
    assert result.value == pytest.approx(3.0)
    assert result.baseline_value == pytest.approx(2.0)
    assert result.ratio == pytest.approx(1.5)
    assert json.loads(as_json(result)) == {
        "measure": "m",
        "value": pytest.approx(3.0),
        "unit": "µs/job",
        "baseline": "f",
        "baseline_value": pytest.approx(2.0),
        "ratio": pytest.approx(1.5),
    }
    assert " ".join(as_text(result).split()) == "m 3 (1 to 8) µs/job = 1.50 × f 2 (1 to 9)"


def test_a_baseline_is_shown_in_the_unit_of_its_measure():
    measure = Measure(name="m", unit=JOBS_PER_SECOND, run=taking(0.01), baseline=Baseline(name="f", run=taking(0.02)))
    (result,) = measured([measure], 1)
    assert (result.value, result.baseline_value, result.ratio) == (
        pytest.approx(100),
        pytest.approx(50),
        pytest.approx(2),
    )


def test_baseline_and_measure_take_turns():
    turns = []

    def turn(name):
        return lambda: turns.append(name) or 1.0

    list(measured([Measure(name="m", unit=MILLISECONDS, run=turn("m"), baseline=Baseline(name="f", run=turn("f")))], 3))
    assert turns == ["f", "m"] * 3


def test_a_reading_may_have_several_parts_each_with_its_unit_and_baseline():
    measure = Measure(
        name="m",
        unit={"a": MILLISECONDS, "b": JOBS_PER_SECOND},
        run=lambda: {"a": 0.5, "b": 0.5},
        baseline=Baseline(name="f", run=lambda: {"a": 0.25, "b": 0.25}),
    )
    first, second = measured([measure], 2)
    assert (first.measure, first.unit, first.value, first.ratio) == ("m_a", "ms", 500.0, 2.0)
    assert (second.measure, second.unit, second.value, second.ratio) == ("m_b", "jobs/s", 2.0, 0.5)


def test_without_a_baseline_there_is_no_ratio():
    (result,) = measured([Measure(name="m", unit=MILLISECONDS, run=lambda: 1.0)], 1)
    assert json.loads(as_json(result))["ratio"] is None
    assert "×" not in as_text(result)


@pytest.mark.parametrize(
    ("count", "p50", "p99"), [(1, 0, 0), (3, 1, 2), (99, 49, 98), (100, 49.5, 98), (300, 149.5, 296)]
)
def test_quantiles(count, p50, p99):
    assert quantiles(range(count)) == {"p50": p50, "p99": p99}
