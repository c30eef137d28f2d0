"""A worker whose handlers do what no handler should. Each must be harmless to the jobs of the others."""

from __future__ import annotations

import contextlib
import ctypes
import decimal
import locale
import os
import random
import re
import resource
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextvars import ContextVar

from ledger import note

from scheduler import Job, JobContext, JobInterrupted, RetryPolicy, Worker, WorkerConfig, backend_from_url

# Newer Pythons warn of a fork while threads run, which is what some handlers are for.
warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)

worker = Worker(
    backend_from_url(os.environ["JOBS"]),
    WorkerConfig(
        concurrency=4,
        queue_buffer=int(os.environ.get("BUFFER", "1")),
        lease_duration=float(os.environ.get("LEASE", "1")),
        heartbeat_interval=0.3,
        recover_interval=0.5,
        poll_interval=0.2,
        shutdown_grace=float(os.environ.get("GRACE", "10")),
        timeout_grace=0.2,
        retry_policy=RetryPolicy.fixed(0.01),
    ),
)
never = threading.Event()
left = ContextVar("left", default="nothing")
hoard: list[object] = []


class HomeMade(BaseException):
    pass


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise SystemExit("no text")

    __repr__ = __str__


def endless(depth: int) -> int:
    return endless(depth + 1) + 1


RAISED: dict[str, Callable[[], BaseException | int]] = {
    "ValueError": lambda: ValueError("plain"),
    "SystemExit": lambda: SystemExit(0),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": StopIteration,
    "HomeMade": HomeMade,
    "Unprintable": UnprintableError,
    "JobInterrupted": lambda: JobInterrupted("stopping"),
    "ExceptionGroup": lambda: ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
    "MemoryError": lambda: MemoryError("pretended"),
    "RecursionError": lambda: endless(0),
    "UnicodeError": lambda: ValueError("\ud800 \x00 \U0001f600"),
}


@worker.handler("calm")
def calm(job: Job, ctx: JobContext) -> None:
    note("began", job)


@worker.handler("slow")
def slow(job: Job, ctx: JobContext) -> None:
    note("began", job)
    never.wait(0.3)


@worker.handler("raises")
def raises(job: Job, ctx: JobContext) -> None:
    make = RAISED[ctx.data]
    raise make()


@worker.handler("stop")
def stops(job: Job, ctx: JobContext) -> None:
    note("began", job)
    assert worker.stop() is False  # asked for, but not over while this very handler runs


@worker.handler("change")
def changes(job: Job, ctx: JobContext) -> str:
    note("began", job)
    seen = f"{job.payload!r} {dict(job.metadata)!r}"
    job.metadata.clear()  # a mapping to readers, a plain dictionary to whoever tries
    job.metadata["else"] = "where"
    for target, name in ((job, "id"), (job, "payload"), (ctx, "job"), (ctx, "started"), (ctx, "data"), (ctx, "ends")):
        with contextlib.suppress(AttributeError):
            setattr(target, name, None)
    if not job.errors:
        raise ValueError(seen)
    return seen


@worker.handler("forks")
def forks(job: Job, ctx: JobContext) -> None:
    """The child returns, raises or exits, as a handler's own code may that forgot where it is."""
    child = os.fork()
    if child == 0:
        if ctx.data == "raises":
            raise ValueError("in the child")
        if ctx.data == "exits":
            sys.exit(7)
        if ctx.data == "leaves":
            os._exit(7)
        return
    note("began", job)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == {"returns": 0, "raises": 1, "exits": 7, "leaves": 7}[ctx.data], status


@worker.handler("threads")
def starts_threads(job: Job, ctx: JobContext) -> None:
    note("began", job)
    for daemon in (True, False):
        threading.Thread(target=never.wait, name=f"left behind, {daemon=}", daemon=daemon).start()


@worker.handler("mask")
def blocks_signals(job: Job, ctx: JobContext) -> None:
    note("began", job)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


@worker.handler("signals")
def handles_signals(job: Job, ctx: JobContext) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # refused: only the main thread may


@worker.handler("mess")
def leaves_a_mess(job: Job, ctx: JobContext) -> None:
    """State of the whole process, or of the thread, that code after it might stumble over."""
    note("began", job)
    left.set("something")
    os.chdir("/")
    os.umask(0o777)
    os.environ.clear()
    os.environ["TZ"] = "America/New_York"
    time.tzset()
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
    decimal.getcontext().prec = 1
    random.seed(1)
    socket.setdefaulttimeout(0.001)
    sys.setrecursionlimit(200)
    sys.stdout = None  # type: ignore[assignment]  # print() takes it as "nowhere"
    sys.argv.clear()


@worker.handler("context")
def finds_no_mess(job: Job, ctx: JobContext) -> None:
    note("began", job)
    assert left.get() == "nothing"


@worker.handler("descriptors")
def closes_descriptors(job: Job, ctx: JobContext) -> None:
    note("began", job)
    os.closerange(3, 1_024)


# ---- the deadly ones: their process does not outlive them


@worker.handler("segfault")
def segfault(job: Job, ctx: JobContext) -> None:
    note("began", job)
    ctypes.string_at(0)


@worker.handler("kill")
def kill(job: Job, ctx: JobContext) -> None:
    note("began", job)
    os.kill(os.getpid(), signal.SIGKILL)


@worker.handler("abort")
def abort(job: Job, ctx: JobContext) -> None:
    note("began", job)
    os.abort()


@worker.handler("leave")
def leave(job: Job, ctx: JobContext) -> None:
    note("began", job)
    os._exit(0)


@worker.handler("alarm")
def alarm(job: Job, ctx: JobContext) -> None:
    note("began", job)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    never.wait()


@worker.handler("hog")
def hog(job: Job, ctx: JobContext) -> None:
    """Keeps the interpreter to itself, for hours: the module re lets no other thread run meanwhile."""
    note("began", job)
    re.match(r"(a+)+$", "a" * 50 + "b")


@worker.handler("memory")
def memory(job: Job, ctx: JobContext) -> None:
    """Leave nothing to anybody in this process. Ends by MemoryError, or takes the process along."""
    note("began", job)
    with open("/proc/self/statm") as figures:  # noqa: PTH123 - the plainest way
        size = int(figures.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 32 * 1024 * 1024, resource.RLIM_INFINITY))
    piece = 16 * 1024 * 1024
    while True:
        try:
            hoard.append(bytearray(piece))
        except MemoryError:
            if piece < 64:
                raise
            piece //= 2


@worker.handler("poison")
def poison(job: Job, ctx: JobContext) -> None:
    """Kills its process when neighbours have begun there."""
    note("began", job)
    never.wait(0.2)
    os.kill(os.getpid(), signal.SIGKILL)
