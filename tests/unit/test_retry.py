"""Delays of retries: finite, positive and within the cap for any policy and attempt."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.errors import ConfigError
from scheduler.retry import LONGEST_DELAY, SHORTEST_DELAY, RetryPolicy, sane_delay

FAR_ATTEMPTS = [1, 2, 46, 47, 63, 64, 1023, 1024, 1_000_000]
POLICIES = st.builds(
    RetryPolicy,
    curve=st.sampled_from(["exponential", "polynomial"]),
    initial=st.floats(5e-324, LONGEST_DELAY),
    factor=st.one_of(st.floats(1.0, 100.0), st.integers(1, 100)),
    cap=st.floats(SHORTEST_DELAY, LONGEST_DELAY),
    jitter=st.floats(0.0, 1.0),
    max_retries=st.none() | st.integers(0, 1_000_000),
)


@pytest.mark.parametrize("attempt", FAR_ATTEMPTS)
@pytest.mark.parametrize("jitter", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("curve", ["exponential", "polynomial"])
def test_a_delay_is_finite_positive_and_within_the_cap_at_any_attempt(curve: str, jitter: float, attempt: int) -> None:
    """Guarantee 10."""
    policy = RetryPolicy(curve=curve, initial=1.0, cap=60.0, jitter=jitter)  # type: ignore[arg-type]  # one of the two
    for _ in range(20):
        assert 0.0 < policy.delay(attempt) <= 60.0


@given(POLICIES, st.integers(-5, 10**9) | st.sampled_from([*FAR_ATTEMPTS, 10**400]))
def test_no_lawful_policy_gives_an_unlawful_delay(policy: RetryPolicy, attempt: int) -> None:
    delay = policy.delay(attempt)
    assert math.isfinite(delay)
    assert 0.0 < delay <= policy.cap


def test_the_default_doubles_from_one_second_to_sixty() -> None:
    policy = RetryPolicy(jitter=0.0)
    assert [policy.delay(attempt) for attempt in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_the_default_jitter_is_a_tenth_both_ways_and_the_cap_holds_after_it() -> None:
    delays = [RetryPolicy().delay(4) for _ in range(500)]
    assert all(7.2 <= delay <= 8.8 for delay in delays)
    assert min(delays) < 7.6
    assert max(delays) > 8.4
    assert max(RetryPolicy().delay(50) for _ in range(500)) == 60.0


def test_jitter_differs_each_time() -> None:
    """Jobs that failed together do not come back together."""
    assert len({RetryPolicy().delay(3) for _ in range(50)}) > 40


@given(st.integers(1, 30))
def test_without_jitter_a_delay_never_shrinks(attempt: int) -> None:
    for policy in (RetryPolicy(jitter=0.0), RetryPolicy(curve="polynomial", jitter=0.0, cap=1e6)):
        assert policy.delay(attempt) <= policy.delay(attempt + 1)


@given(POLICIES, st.integers(1, 100))
def test_jitter_stays_within_its_share(policy: RetryPolicy, attempt: int) -> None:
    plain = RetryPolicy(**{**policy.to_data(), "jitter": 0.0}).delay(attempt)  # type: ignore[arg-type]  # its own data
    low, high = plain * (1 - policy.jitter), plain * (1 + policy.jitter)
    assert low * 0.999 <= policy.delay(attempt) <= high * 1.001  # a margin for rounding


def test_durable_is_24_retries_over_about_three_weeks() -> None:
    policy = RetryPolicy.durable()
    assert policy.max_retries == 24
    plain = RetryPolicy(**{**policy.to_data(), "jitter": 0.0})  # type: ignore[arg-type]  # its own data
    assert [plain.delay(attempt) for attempt in (1, 2, 3, 24)] == [16, 31, 96, 24**4 + 15]
    assert 20 * 86_400 < sum(plain.delay(attempt) for attempt in range(1, 25)) < 22 * 86_400
    assert 14.4 <= policy.delay(1) <= 17.6


def test_fixed_is_always_the_same() -> None:
    policy = RetryPolicy.fixed(2.5, max_retries=0)
    assert {policy.delay(attempt) for attempt in FAR_ATTEMPTS} == {2.5}
    assert policy.max_retries == 0


def test_an_attempt_below_one_counts_as_the_first() -> None:
    assert RetryPolicy(jitter=0.0).delay(0) == RetryPolicy(jitter=0.0).delay(-7) == 1.0


def test_whole_numbers_are_kept_as_floats() -> None:
    """Otherwise 100 ** 1,000,000 would be computed exactly, and 1 and 1.0 would be stored as different texts."""
    policy = RetryPolicy(initial=1, factor=100, cap=60, jitter=0)
    assert policy == RetryPolicy(initial=1.0, factor=100.0, cap=60.0, jitter=0.0)
    assert {type(policy.to_data()[name]) for name in ("initial", "factor", "cap", "jitter")} == {float}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("curve", "linear"),
        ("curve", None),
        ("initial", 0),
        ("initial", -1.0),
        ("initial", math.nan),
        ("initial", math.inf),
        ("initial", LONGEST_DELAY * 2),
        ("initial", True),
        ("initial", "1"),
        ("factor", 0.5),
        ("factor", 101),
        ("factor", math.nan),
        ("factor", None),
        ("cap", 0),
        ("cap", math.inf),
        ("cap", 10**400),
        ("jitter", -0.1),
        ("jitter", 1.1),
        ("jitter", math.nan),
        ("max_retries", -1),
        ("max_retries", True),
        ("max_retries", 1.0),
        ("max_retries", "3"),
        ("max_retries", 1_000_001),
    ],
    ids=repr,
)
def test_nonsense_is_refused_and_named(field: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        RetryPolicy(**{field: value})  # type: ignore[arg-type]  # what the test is about
    assert caught.value.field == field


@given(POLICIES)
def test_a_policy_travels_as_plain_data(policy: RetryPolicy) -> None:
    """Through JSON as through pickle, to the last bit."""
    assert RetryPolicy.from_data(json.loads(json.dumps(policy.to_data(), allow_nan=False))) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy  # noqa: S301 - made on this very line


def test_data_of_a_later_version_is_read() -> None:
    assert RetryPolicy.from_data({"initial": 2.0, "colour": "blue"}) == RetryPolicy(initial=2.0)
    assert RetryPolicy.from_data({}) == RetryPolicy()


def test_data_that_was_tampered_with_is_refused() -> None:
    with pytest.raises(ConfigError):
        RetryPolicy.from_data({"cap": "for ever"})


# A policy of the user


class Policy:
    """Returns or raises what the test sets."""

    def __init__(self, answer: Callable[[], object]) -> None:
        self.answer = answer

    def delay(self, attempt: int) -> float:
        return self.answer()  # type: ignore[return-value]  # what the test is about


class HomeMade(BaseException):
    pass


def raising(error: BaseException) -> Callable[[], object]:
    def answer() -> object:
        raise error

    return answer


FALLBACK = RetryPolicy.fixed(7.0)


@pytest.mark.parametrize(
    "answer",
    [
        *map(raising, (ValueError(), OverflowError(), SystemExit(), KeyboardInterrupt(), GeneratorExit(), HomeMade())),
        lambda: math.nan,
        lambda: math.inf,
        lambda: -math.inf,
        lambda: -1,
        lambda: -1e-9,
        lambda: 10**400,
        lambda: "soon",
        lambda: None,
        lambda: 1j,
        object,
    ],
)
def test_a_faulty_policy_is_replaced_and_loses_no_job(answer: Callable[[], object]) -> None:
    assert sane_delay(Policy(answer), 3, FALLBACK) == 7.0


def test_what_is_no_policy_at_all_is_replaced() -> None:
    assert sane_delay(object(), 1, FALLBACK) == 7.0  # type: ignore[arg-type]  # what the test is about


@pytest.mark.parametrize(
    ("answer", "delay"), [(0, SHORTEST_DELAY), (1e-9, SHORTEST_DELAY), (5, 5.0), (1e300, LONGEST_DELAY), ("2.5", 2.5)]
)
def test_a_sane_answer_is_taken_within_bounds(answer: object, delay: float) -> None:
    assert sane_delay(Policy(lambda: answer), 1, FALLBACK) == delay


def test_the_policy_is_asked_for_the_attempt_that_failed() -> None:
    assert sane_delay(RetryPolicy(jitter=0.0), 4, FALLBACK) == 8.0


@given(st.one_of(st.floats(), st.integers(), st.text(), st.none(), st.booleans()), st.integers(1, 100))
def test_whatever_a_policy_answers_the_delay_is_sane(answer: object, attempt: int) -> None:
    assert SHORTEST_DELAY <= sane_delay(Policy(lambda: answer), attempt, FALLBACK) <= LONGEST_DELAY
