"""The suite finds what is broken: each saboteur fails in the room meant for its fault, and most in random sequences."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from scheduler.testing.state_machine import BackendMachine, Rigs
from testing import saboteurs

ROOMS = {
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
    "RecoversOnlyWhatItLikes": ["RecoverContract", "LeaseContract"],  # the latter by its invariants alone
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

# What no sequence of the machine's moves brings to light: it has one thread, gives good arguments and lawful names.
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
from scheduler.testing.contract import rooms, waiting, wakeups
from scheduler.testing.contract.stand import Stand
from testing.saboteurs import {name}

waiting.PATIENCE = wakeups.PATIENCE = 1.0  # seconds: what never rings is to be found soon

class TestSaboteur(rooms.{room}, Stand):
    @pytest.fixture
    def open_backend(self):
        return {name}
"""


def test_every_saboteur_is_tried() -> None:
    defined = {name for name, kind in vars(saboteurs).items() if getattr(kind, "__module__", "") == saboteurs.__name__}
    assert {name for name in defined if not name.startswith("_")} == set(ROOMS)


@pytest.mark.parametrize(("name", "room"), [(name, room) for name, rooms in ROOMS.items() for room in rooms])
def test_the_room_of_its_fault_finds_it(pytester: pytest.Pytester, name: str, room: str) -> None:
    pytester.makepyfile(FILE.format(name=name, room=room))
    outcomes = pytester.runpytest_inprocess("-q", "-x", "-p", "no:randomly").parseoutcomes()
    assert outcomes.get("passed", 0) + outcomes.get("failed", 0) >= 1  # it ran: a broken file is no finding
    assert outcomes.get("failed", 0) + outcomes.get("errors", 0) >= 1  # an error: the check of invariants after a test


@pytest.mark.parametrize("name", sorted(set(ROOMS) - BEYOND_SEQUENCES))
def test_random_sequences_find_it(name: str) -> None:
    with Rigs(getattr(saboteurs, name)) as rigs, pytest.raises((AssertionError, KeyError)):
        # A KeyError: the saboteur's own dict has a hole.
        run_state_machine_as_test(
            lambda: BackendMachine(rigs.take, rigs.give_back),
            settings=settings(
                max_examples=500,
                stateful_step_count=40,
                phases=[Phase.generate],  # found is enough; making the example small takes long
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
