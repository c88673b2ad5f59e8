"""How long is waited before what is tried again. Expected values are worked out by hand."""

import math
from datetime import timedelta

import pytest

from stepwell.retry import RetryPolicy

POLICY = RetryPolicy()
ALMOST_ONE = math.nextafter(1, 0)


def seconds(
    attempt: int, jitter: float, retry_after: float | None = None, policy: RetryPolicy = POLICY
) -> float:
    return policy.wait(attempt, jitter, retry_after).total_seconds()


def test_the_policy_of_the_design() -> None:
    assert (POLICY.attempts, POLICY.base, POLICY.ceiling) == (
        5,
        timedelta(seconds=1),
        timedelta(minutes=5),
    )
    assert POLICY.keep_lease == timedelta(seconds=10)


@pytest.mark.parametrize(
    ("attempt", "longest"),
    [(1, 1), (2, 2), (3, 4), (4, 8), (9, 256), (10, 300), (31, 300), (10**9, 300)],
)
def test_the_wait_doubles_up_to_five_minutes_and_the_jitter_is_full(
    attempt: int, longest: int
) -> None:
    assert seconds(attempt, 0) == 0
    assert seconds(attempt, 0.5) == longest / 2
    assert seconds(attempt, ALMOST_ONE) == pytest.approx(longest, abs=0.001)


# E01: the header's value in seconds, as an adapter has read it; jitter 0.5 alone gives 0.5 s.
@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        (20, 20),
        (90, 90),
        (7200, 7200),
        (0, 0.5),
        (-5, 0.5),
        (1.5, 1.5),
        (math.nan, 0.5),
        (math.inf, 24 * 3600),
        (10**12, 24 * 3600),
        (None, 0.5),
        (0.1, 0.5),
    ],
)
def test_e01_at_least_what_the_provider_asked_for(retry_after: float | None, wait: float) -> None:
    assert seconds(1, 0.5, retry_after) == wait


@pytest.mark.parametrize("retry_after", [None, 0.0001, 1.23456])
@pytest.mark.parametrize("jitter", [0.123456789, 0.00049])
def test_a_wait_is_whole_milliseconds_for_that_is_what_the_database_keeps(
    retry_after: float | None, jitter: float
) -> None:
    wait = POLICY.wait(1, jitter, retry_after)
    assert wait % timedelta(milliseconds=1) == timedelta(0)
    assert wait >= timedelta(seconds=max(jitter, retry_after or 0))


def test_five_attempts() -> None:
    assert [POLICY.exhausted(attempt) for attempt in range(1, 7)] == [False] * 4 + [True] * 2


def test_a_policy_without_waits() -> None:
    assert seconds(3, ALMOST_ONE, policy=RetryPolicy(base=timedelta(0))) == 0
