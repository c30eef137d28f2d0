"""Each broken backend fails in the tests of the suite for its fault, and most fail in random sequences."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from scheduler.testing.state_machine import BackendMachine, Harnesses
from testing import broken_backends

CHAPTERS = {
    "ChecksNoToken": ["RecoverContract", "RenewContract"],
    "CountsNoAttempts": ["LeaseContract", "RecoverContract"],
    "IgnoresOrder": ["OrderContract"],
    "IgnoresPriority": ["OrderContract"],
    "OverwritesARepeatedId": ["EnqueueContract", "ThreadsContract"],
    "CallsEveryRepeatADuplicate": ["EnqueueContract", "RepeatsContract"],
    "SharesTheCallersMetadata": ["EnqueueContract"],
    "KeepsAReleasedAttempt": ["ReleaseContract"],
    "RecoversForEver": ["RecoverContract"],
    "CountsNoCrash": ["RecoverContract"],
    "RecoversOnlyWhatItLikes": ["RecoverContract", "LeaseContract"],  # the latter only by the invariants
    "RecoversEarly": ["RecoverContract"],
    "LeasesMoreOnARepeat": ["LeaseContract"],
    "LeasesAboveTheLimit": ["LeaseContract"],
    "StarvesTheLaterQueues": ["LeaseContract"],
    "IgnoresPause": ["PauseContract"],
    "IgnoresTheDelayOfARetry": ["RetryContract"],
    "KeepsErrorsWithoutBound": ["RetryContract"],
    "RequeuesTheAttemptsToo": ["RequeueContract"],
    "CancelsUnderAWorker": ["CancelContract", "MovesContract"],
    "DecodesPayloads": ["PayloadsContract"],
    "JoinsNames": ["NamesContract"],
    "FoldsCase": ["NamesContract"],
    "LosesTheLastOfAPage": ["ReadsContract"],
    "ListsTwice": ["ReadsContract", "RetryContract"],
    "CountsOnlyWhatItHas": ["StatsContract"],
    "PurgesLeased": ["PurgeContract"],
    "TrimsAtOnce": ["TrimContract"],
    "TakesAnyLimit": ["ArgumentsContract"],
    "StartsEarly": ["TimesContract"],
    "WorksWhenClosed": ["LifeContract"],
    "HasNoTransactions": ["ThreadsContract"],
    "LosesWhatIsRetried": ["RetryContract"],
    "NeverRings": ["WakeupsContract"],
    "CallsAllNewsReady": ["WakeupsContract"],
    "StrandsJobs": ["CompletingContract"],
}

# Faults that the state machine cannot find: it has one thread and uses valid arguments and names.
BEYOND_SEQUENCES = {
    "CallsAllNewsReady",
    "FoldsCase",
    "HasNoTransactions",
    "JoinsNames",
    "KeepsErrorsWithoutBound",
    "NeverRings",
    "PurgesLeased",
    "SharesTheCallersMetadata",
    "StartsEarly",
    "StarvesTheLaterQueues",
    "TakesAnyLimit",
    "WorksWhenClosed",
}

FILE = """
import pytest
from scheduler.testing.contract import suite, waiting, wakeups
from scheduler.testing.contract.fixtures import ContractFixtures
from testing.broken_backends import {name}

waiting.WAIT_TIMEOUT = wakeups.WAIT_TIMEOUT = 1.0  # seconds: what never rings is to be found soon

class TestBroken(suite.{chapter}, ContractFixtures):
    @pytest.fixture
    def open_backend(self):
        return {name}
"""


def test_every_broken_backend_is_tested() -> None:
    defined = {
        name
        for name, kind in vars(broken_backends).items()
        if getattr(kind, "__module__", "") == broken_backends.__name__
    }
    assert {name for name in defined if not name.startswith("_")} == set(CHAPTERS)


@pytest.mark.parametrize(
    ("name", "chapter"), [(name, chapter) for name, chapters in CHAPTERS.items() for chapter in chapters]
)
def test_the_tests_of_its_fault_find_it(pytester: pytest.Pytester, name: str, chapter: str) -> None:
    pytester.makepyfile(FILE.format(name=name, chapter=chapter))
    outcomes = pytester.runpytest_inprocess("-q", "-x", "-p", "no:randomly").parseoutcomes()
    assert outcomes.get("passed", 0) + outcomes.get("failed", 0) >= 1  # the tests must have run
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) >= 1  # an error: the check of invariants after a test


@pytest.mark.parametrize("name", sorted(set(CHAPTERS) - BEYOND_SEQUENCES))
def test_random_sequences_find_it(name: str) -> None:
    with Harnesses(getattr(broken_backends, name)) as harnesses, pytest.raises((AssertionError, KeyError)):
        # A KeyError comes from the broken backend's own dict.
        run_state_machine_as_test(
            lambda: BackendMachine(harnesses.take, harnesses.give_back),
            settings=settings(
                max_examples=500,
                stateful_step_count=40,
                phases=[Phase.generate],  # without shrinking the example, which is slow
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
