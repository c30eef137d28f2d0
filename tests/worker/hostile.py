"""Exceptions that do their worst when somebody looks at them."""

# ruff: noqa: N818 - named for what they do

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn


def _refuse(error: BaseException) -> Callable[..., NoReturn]:
    def method(*_: object) -> NoReturn:
        raise error

    return method


class Plain(BaseException):
    """A class of a user's own, outside of Exception."""


class StrRaises(Exception):
    __str__ = _refuse(RuntimeError("no text"))


class ReprRaises(Exception):
    __repr__ = _refuse(RuntimeError("no text"))


class BothRaise(Exception):
    __str__ = _refuse(RuntimeError("no text"))
    __repr__ = _refuse(RuntimeError("no text"))


class StrExits(Exception):
    __str__ = _refuse(SystemExit(1))
    __repr__ = _refuse(KeyboardInterrupt())


class StrIsNoText(Exception):
    def __str__(self) -> str:
        return 7  # type: ignore[return-value]  # noqa: PLE0307 - the purpose


class StrRecurses(Exception):
    def __str__(self) -> str:
        return str(self)


class StrIsASubclass(Exception):
    def __str__(self) -> str:
        class Text(str):
            __slots__ = ()
            __len__ = _refuse(RuntimeError("no length"))
            __str__ = _refuse(RuntimeError("no text"))

        return Text("text")


class HugeText(Exception):
    def __str__(self) -> str:
        return "x" * 5_000_000


class WithNul(Exception):
    def __str__(self) -> str:
        return "a\x00b\ud800c"


class ClassRaises(Exception):
    @property  # type: ignore[misc]  # what isinstance() asks for when the type does not fit
    def __class__(self) -> type:
        raise RuntimeError("no class")


class NothingCanBeAsked(ClassRaises):
    """Neither what it is, nor whether it is true, nor what it equals."""

    __bool__ = _refuse(RuntimeError("no truth"))
    __eq__ = _refuse(RuntimeError("no equality"))
    __hash__ = _refuse(RuntimeError("no hash"))  # type: ignore[assignment]  # the purpose
    __getattribute__ = _refuse(SystemExit("no attribute"))


class _Meta(type):
    def __getattribute__(cls, name: str) -> object:
        if name in ("__qualname__", "__module__", "__name__"):
            raise RuntimeError("no name")
        return super().__getattribute__(name)


class Nameless(Exception, metaclass=_Meta):
    pass


class NotesRaise(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]  # the purpose
        raise RuntimeError("no notes")


def in_a_circle() -> Exception:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    return one


def a_long_chain() -> BaseException:
    error: BaseException = ValueError("first")
    for number in range(3_000):
        follower = ValueError(f"number {number}")
        follower.__context__ = error
        error = follower
    return error


HOSTILE: list[Callable[[], BaseException]] = [
    Plain,
    StrRaises,
    ReprRaises,
    BothRaise,
    StrExits,
    StrIsNoText,
    StrRecurses,
    StrIsASubclass,
    HugeText,
    WithNul,
    ClassRaises,
    NothingCanBeAsked,
    Nameless,
    NotesRaise,
    in_a_circle,
    a_long_chain,
    SystemExit,
    KeyboardInterrupt,
    GeneratorExit,
    MemoryError,
    RecursionError,
    StopIteration,
    lambda: ExceptionGroup("group", [ValueError(1), StrRaises()]),
    lambda: BaseExceptionGroup("group", [SystemExit(1), Plain()]),
]


def name_of(make: Callable[[], BaseException]) -> str:
    try:
        return make.__name__
    except RuntimeError:
        return "Nameless"
