"""Every benchmark runs, for a moment, on memory, and reports as the others do. How fast it is, tests do not judge."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIZES = {
    "store_lifecycle": 20,
    "worker_throughput": 50,
    "lease_complete": 300,
    "enqueue_bulk": 70,
    "enqueue_single": 5,
    "pickup": 3,
    "lateness": 3,
    "idle": 1,
    "backlog": 2,
    "partitions": 50,
}
ONLY_ON_A_SERVER = {"many_queues", "postgres_costs"}
FIELDS = ["measure", "value", "unit", "baseline", "baseline_value", "ratio"]


def run(*arguments):
    command = [sys.executable, "-W", "error", "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("name", SIZES)
def test_a_benchmark_prints_one_object_a_line(name):
    answer = run(f"benchmarks.{name}", "--backend", "memory://", "--repeat", "1", "--size", str(SIZES[name]), "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    results = [json.loads(line) for line in answer.stdout.splitlines()]
    assert results
    for result in results:
        assert list(result) == FIELDS
        assert isinstance(result["measure"], str)
        assert isinstance(result["value"], float)
        assert isinstance(result["unit"], str)
        if result["baseline"] is None:
            assert result["baseline_value"] is result["ratio"] is None
        else:
            assert result["ratio"] == pytest.approx(result["value"] / result["baseline_value"])


def test_all_can_be_run_at_once_and_by_name():
    answer = run("benchmarks", "enqueue_single", "partitions", "--repeat", "1", "--size", "5", "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    names = [json.loads(line)["measure"] for line in answer.stdout.splitlines()]
    assert names == ["enqueue_single", "producer_enqueue", "worker_end_to_end_8_partitions"]
    assert run("benchmarks", "no_such").returncode == 2
    listed = set(run("benchmarks", "no_such").stderr.replace(",", " ").split())
    assert listed >= SIZES.keys()


def test_every_benchmark_of_the_folder_is_run_here():
    found = {
        path.stem
        for path in (ROOT / "benchmarks").glob("[a-z]*.py")
        if "from benchmarks.command import main" in path.read_text("utf-8")
    }
    assert found - ONLY_ON_A_SERVER == SIZES.keys()


def test_the_throughput_of_a_worker_stands_beside_submit_and_the_default_configuration():
    answer = run("benchmarks.worker_throughput", "--repeat", "1", "--size", "20", "--json")
    results = [json.loads(line) for line in answer.stdout.splitlines()]
    assert [result["measure"] for result in results] == ["worker_end_to_end", "worker_end_to_end_default"]
    assert {(result["baseline"], result["unit"]) for result in results} == {("submit", "jobs/s")}


def test_text_shows_the_median_with_minimum_and_maximum():
    answer = run("benchmarks.enqueue_single", "--repeat", "3", "--size", "5")
    first, *_ = answer.stdout.splitlines()
    assert first.startswith("enqueue_single ")
    assert "(" in first
    assert " to " in first
    assert first.endswith("µs/job")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--backend", "nonsense://"], "no installed package offers"),
        (["--backend", "memory://?colour=red"], "colour"),
        (["--repeat", "0"], "must be at least 1"),
        (["--size", "many"], "invalid"),
    ],
)
def test_a_wrong_argument_is_named(arguments, complaint):
    answer = run("benchmarks.enqueue_single", *arguments)
    assert answer.returncode != 0
    assert complaint in answer.stderr
    assert "Traceback" not in answer.stderr
