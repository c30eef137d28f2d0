"""The class with all tests of the suite, from which the test class of a backend inherits."""

from __future__ import annotations

from scheduler.testing.contract.arguments import ArgumentsContract
from scheduler.testing.contract.bury import BuryContract
from scheduler.testing.contract.cancel import CancelContract
from scheduler.testing.contract.complete import CompleteContract
from scheduler.testing.contract.completing import CompletingContract
from scheduler.testing.contract.damage import DamageContract
from scheduler.testing.contract.enqueue import EnqueueContract
from scheduler.testing.contract.fixtures import ContractFixtures
from scheduler.testing.contract.lease import LeaseContract
from scheduler.testing.contract.life import LifeContract
from scheduler.testing.contract.moves import MovesContract
from scheduler.testing.contract.names import NamesContract
from scheduler.testing.contract.nesting import NestingContract
from scheduler.testing.contract.order import OrderContract
from scheduler.testing.contract.pause import PauseContract
from scheduler.testing.contract.payloads import PayloadsContract
from scheduler.testing.contract.promote import PromoteContract
from scheduler.testing.contract.purge_trim import PurgeContract, TrimContract
from scheduler.testing.contract.reads import ReadsContract
from scheduler.testing.contract.recover import RecoverContract
from scheduler.testing.contract.release import ReleaseContract
from scheduler.testing.contract.renew import RenewContract
from scheduler.testing.contract.repeats import RepeatsContract
from scheduler.testing.contract.requeue import RequeueContract
from scheduler.testing.contract.retry import RetryContract
from scheduler.testing.contract.sequences import SequencesContract
from scheduler.testing.contract.sizes import SizesContract
from scheduler.testing.contract.stats import StatsContract
from scheduler.testing.contract.threads import ThreadsContract
from scheduler.testing.contract.times import TimesContract
from scheduler.testing.contract.topology import TopologyContract
from scheduler.testing.contract.transactional import TransactionalContract
from scheduler.testing.contract.wakeups import WakeupsContract


class BackendContract(  # one file each, in the order of a job's life
    EnqueueContract,
    PromoteContract,
    LeaseContract,
    NestingContract,
    OrderContract,
    RenewContract,
    CompleteContract,
    RetryContract,
    BuryContract,
    ReleaseContract,
    RecoverContract,
    CancelContract,
    RequeueContract,
    MovesContract,
    ReadsContract,
    StatsContract,
    PauseContract,
    PurgeContract,
    TrimContract,
    ArgumentsContract,
    NamesContract,
    TimesContract,
    PayloadsContract,
    SizesContract,
    DamageContract,
    RepeatsContract,
    ThreadsContract,
    SequencesContract,
    LifeContract,
    WakeupsContract,
    TopologyContract,
    CompletingContract,
    TransactionalContract,
    ContractFixtures,
):
    """All tests of the suite. Inherit from it, in a class named `Test…`, and override the fixture `open_backend`."""
