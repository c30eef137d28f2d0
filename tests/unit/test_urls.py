"""Options in URLs, and hiding passwords."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.errors import ConfigError
from scheduler.queues import Retention
from scheduler.urls import RETENTION_OPTIONS, Option, Parser, boolean, retention_from, split_options, without_password

PARSERS: dict[str, Parser] = {"prefix": str, "partitions": int, "slow": float, "wait": boolean}


def test_options_are_read_by_their_parsers() -> None:
    url = "redis://host:6379/0?prefix=my%20app&partitions=8&slow=0.5&wait=no"
    assert split_options(url, PARSERS) == (
        "redis://host:6379/0",
        {"prefix": "my app", "partitions": 8, "slow": 0.5, "wait": False},
    )


@pytest.mark.parametrize(
    "url", ["memory://", "sqlite:///jobs.db", "sqlite:////var/a@b.db", "redis+cluster://u:p%40@a:1,b:2/x", "unix:///s?"]
)
def test_what_stands_before_the_query_is_left_as_it_was(url: str) -> None:
    assert split_options(url, {}) == (url.removesuffix("?"), {})
    assert split_options(f"{url.removesuffix('?')}?prefix=", PARSERS)[0] == url.removesuffix("?")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("colour=blue", "colour"),
        ("partitions=8&partitions=8", "partitions"),
        ("partitions=", "partitions"),
        ("partitions=many", "partitions"),
        ("slow=x", "slow"),
        ("wait=perhaps", "wait"),
        ("Prefix=x", "Prefix"),
    ],
)
def test_an_option_that_is_not_understood_is_named(query: str, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        split_options(f"redis://host/0?{query}", PARSERS)
    assert caught.value.field == field


def test_an_unknown_option_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="known: partitions, prefix, slow, wait"):
        split_options("redis://host?colour=blue", PARSERS)


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("TRUE", True), ("yes", True), ("0", False), ("False", False), ("no", False)]
)
def test_on_and_off_have_three_spellings(text: str, value: bool) -> None:  # noqa: FBT001 - an expectation
    assert boolean(text) is value


def test_retention_is_taken_from_the_options() -> None:
    url = "memory://?retain_succeeded=60&retain_dead=0&prefix=x"
    options: dict[str, Option] = split_options(url, {**RETENTION_OPTIONS, **PARSERS})[1]
    assert retention_from(options) == Retention(succeeded=60, dead=0)
    assert options == {"prefix": "x"}
    assert retention_from({}) == Retention()


def test_a_retention_that_is_none_is_refused() -> None:
    for text in ("-1", "nan", "inf"):
        _, options = split_options(f"memory://?retain_dead={text}", RETENTION_OPTIONS)
        with pytest.raises(ConfigError, match=r"^retention\.dead: "):
            retention_from(options)


# Secrets

SECRET = "hunter2"  # noqa: S105 - the tests look for it
CARELESS = [
    f"redis://:{SECRET}/x@host:6379/0",
    f"redis://:x/{SECRET}@host:6379/0",
    f"redis://:{SECRET}?x@host/0",
    f"redis://:x?{SECRET}@host/0",
    f"redis://:x?{SECRET}=1@host/0",
    f"redis://:x?partitions={SECRET}@host/0",
    f"redis://:{SECRET}#x@host/0",
    f"redis://:x#{SECRET}@host/0",
    f"redis://user:x@{SECRET}/y@host/0",
    f"redis://:{SECRET}\u2100@host/0",
    f"redis://:{SECRET}[@host/0",
]


@pytest.mark.parametrize("url", CARELESS)
def test_a_password_that_is_not_encoded_shows_nowhere(url: str) -> None:
    """Parsed strictly, parts of it are in the host, the path, the query or the fragment."""
    assert SECRET not in without_password(url)
    with pytest.raises(ConfigError) as caught:
        split_options(url, PARSERS)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:secret@host:6379/0", "redis://user:***@host:6379/0"),
        ("redis://:secret@host", "redis://:***@host"),
        ("redis://user@host/1?password=secret", "redis://user@host/1"),
        ("redis://a:s@ec:r@et@host/1", "redis://a:***@host/1"),
        ("redis+sentinel://:secret@a:1,b:2/name", "redis+sentinel://:***@a:1,b:2/name"),
        ("sqlite:////var/jobs.db", "sqlite:////var/jobs.db"),
        ("memory://", "memory://"),
    ],
)
def test_a_url_is_shown_without_password_and_query(url: str, shown: str) -> None:
    assert without_password(url) == shown


@given(st.text(min_size=1), st.sampled_from(["redis://u:{}@host/0", "redis://:{}@host/0?prefix=1", "pg://u:{}@h:1/d"]))
@example("/?#@:[]%", "redis://u:{}@host/0")
def test_no_password_is_ever_shown(text: str, form: str) -> None:
    """Whether encoded or not. The marks around it make it recognisable."""
    url = form.format(f"KEEP{text}SECRET")
    shown = without_password(url)
    try:
        split_options(url, PARSERS)
    except ConfigError as error:
        shown += str(error)
    assert "KEEP" not in shown
    assert "SECRET" not in shown
