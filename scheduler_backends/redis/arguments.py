"""Arguments of the contract that `scheduler.limits` has no check for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from scheduler.errors import ConfigError
from scheduler.limits import check_name, check_queues
from scheduler.states import JobState


def texts(ids: Sequence[str]) -> list[str]:
    """*ids* as a list; anything that is not text is refused."""
    if isinstance(ids, str) or not all(isinstance(one, str) for one in ids):
        raise ConfigError("ids", "must be a sequence of texts")
    return list(ids)


def is_id(text: str) -> bool:
    """Whether a job can have this id; any other is simply absent."""
    try:
        check_name("ids", text, ConfigError)
    except ConfigError:
        return False
    return True


def state_of(state: object) -> JobState:
    """The state that *state* is, or is the name of."""
    try:
        return JobState(state)  # type: ignore[arg-type]  # what it is not, it refuses
    except ValueError:
        raise ConfigError("state", "must be a JobState") from None


def queues_of(queues: Sequence[str]) -> tuple[str, ...]:
    """As `check_queues`; what a worker names in each of its calls, a thousand perhaps, is checked once."""
    if type(queues) is tuple:
        with suppress(TypeError):  # names that are none, not even hashable: refused below
            return _checked(queues)
    return check_queues(queues)


_checked = lru_cache(maxsize=64)(check_queues)
