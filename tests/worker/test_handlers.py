"""Handlers are plain functions of (job, ctx): anything else is refused when registered (guarantee 15)."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from enum import Enum, StrEnum

import pytest

from scheduler.errors import ConfigError, DuplicateHandler, HandlerError, InvalidHandler
from scheduler.jobs import Job
from scheduler.retry import RetryPolicy
from scheduler.worker import JobContext
from scheduler.worker.handlers import Handler, Handlers


async def coroutine(job: Job, ctx: JobContext) -> None: ...


def generator(job: Job, ctx: JobContext) -> Iterator[int]:
    yield 1


async def async_generator(job: Job, ctx: JobContext) -> AsyncIterator[int]:
    yield 1


class AsyncCall:
    async def __call__(self, job: Job, ctx: JobContext) -> None: ...

    async def method(self, job: Job, ctx: JobContext) -> None: ...

    @classmethod
    async def of_class(cls, job: Job, ctx: JobContext) -> None: ...

    @staticmethod
    async def of_nobody(job: Job, ctx: JobContext) -> None: ...


class GeneratorCall:
    def __call__(self, job: Job, ctx: JobContext) -> Iterator[int]:
        yield 1


def register(function: object, job_type: str = "work") -> Handlers:
    handlers = Handlers()
    handlers.register(job_type, Handler(function=function))  # type: ignore[arg-type]  # what a user hands in
    return handlers


WOULD_NOT_RUN = [
    coroutine,
    generator,
    async_generator,
    functools.partial(coroutine),
    functools.partial(functools.partial(generator)),
    functools.partial(AsyncCall()),
    AsyncCall(),
    GeneratorCall(),
    AsyncCall().method,
    AsyncCall.of_class,
    AsyncCall.of_nobody,
]


@pytest.mark.parametrize("function", WOULD_NOT_RUN)
def test_what_would_never_run_is_refused(function: object) -> None:
    with pytest.raises(InvalidHandler, match="plain function") as raised:
        register(function)
    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, HandlerError)


@pytest.mark.parametrize("function", [None, 7, "handler", object()])
def test_what_cannot_be_called_is_refused(function: object) -> None:
    with pytest.raises(InvalidHandler, match="callable"):
        register(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda job: None,
        lambda job, ctx, more: None,
        lambda job, *, ctx: None,
        lambda job, ctx, *, needed: None,
        functools.partial(lambda job, ctx: None, 1),
    ],
)
def test_what_does_not_take_job_and_ctx_is_refused(function: object) -> None:
    with pytest.raises(InvalidHandler, match=r"handler\(job, ctx\)"):
        register(function)


class Called:
    def __call__(self, job: Job, ctx: JobContext) -> None: ...

    def method(self, job: Job, ctx: JobContext) -> None: ...


def awaited(function: Callable[..., object]) -> Callable[..., object]:
    """The way to run a coroutine function in a thread: the wrapper is plain, and returns when it has run."""

    @functools.wraps(function)
    def run(*arguments: object) -> object:
        return asyncio.run(function(*arguments))  # type: ignore[arg-type]  # a coroutine function's answer

    return run


def unpacked(function: Callable[..., object]) -> Callable[..., object]:
    """A wrapper with a signature of its own, as a typed layer above has."""

    @functools.wraps(function)
    def run(job: Job, ctx: JobContext) -> object:
        return function(**ctx.data)  # type: ignore[arg-type]  # a dictionary in that layer

    return run


@pytest.mark.parametrize(
    "function",
    [
        lambda job, ctx: None,
        lambda *arguments: None,
        lambda job, ctx, more=1: None,
        functools.partial(lambda more, job, ctx: None, 1),
        Called(),
        Called().method,
        print,
        dict.update,
        awaited(coroutine),
        unpacked(lambda to, subject: None),
    ],
)
def test_whatever_can_be_called_so_is_a_handler(function: object) -> None:
    handler = register(function).find("work")
    assert handler is not None
    assert handler.function is function


def test_a_type_has_one_handler() -> None:
    handlers = register(print)
    with pytest.raises(DuplicateHandler, match="'work'"):
        handlers.register("work", Handler(function=print))
    assert handlers.types == ["work"]


def test_an_unknown_type_has_none() -> None:
    assert register(print).find("other") is None


class Kind(StrEnum):
    WORK = "work"


class OldKind(str, Enum):  # noqa: UP042 - as many programs still have it
    WORK = "work"


@pytest.mark.parametrize("job_type", [Kind.WORK, OldKind.WORK])
def test_a_type_given_as_an_enum_is_found_by_its_text(job_type: str) -> None:
    assert register(print, job_type).find("work")


@pytest.mark.parametrize("job_type", ["", "a\nb", "x" * 201, None, 7])
def test_a_type_that_no_job_can_have_is_refused(job_type: str) -> None:
    with pytest.raises(ConfigError) as raised:
        register(print, job_type)
    assert raised.value.field == "type"


def test_the_class_of_a_retry_policy_is_none() -> None:
    """It has the method, which fails when it is called."""
    with pytest.raises(ConfigError, match=r"^retry_policy: .*the class RetryPolicy"):
        Handlers().register("send", Handler(function=lambda job, ctx: None, retry_policy=RetryPolicy))  # type: ignore[arg-type]


def test_an_interrupt_is_wanted_or_not() -> None:
    with pytest.raises(ConfigError, match=r"^interrupt: "):
        Handlers().register("send", Handler(function=lambda job, ctx: None, interrupt="no"))  # type: ignore[arg-type]


def test_a_retry_policy_that_tells_no_delay_is_refused() -> None:
    with pytest.raises(ConfigError) as raised:
        Handlers().register("work", Handler(function=print, retry_policy=5.0))  # type: ignore[arg-type]  # as a user may
    assert raised.value.field == "retry_policy"
