"""`bench/sustained.py` tells how old a lake is by the rows that were due, and finds the highest rate that it keeps up with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from support.bench.modules import load_module

lag: Any = load_module("steady/lag.py")
LIMIT = 12.0


def step(rate: float, seconds: float, p99_s: float, *, is_whole: bool = True) -> Any:
    return lag.Step(rate, seconds, p99_s, p99_s, p99_s, None, 0.0, None, is_whole)


def test_a_lag_is_the_age_of_the_oldest_row_that_is_not_in_the_lake() -> None:
    landings = [lag.Landing(0.0, 0), lag.Landing(2.0, 100), lag.Landing(3.0, 300)]
    assert list(lag.lags(landings, 100.0, 0.0, 3.0)) == [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 1, 1.25, 1.5, 1.75, 0]


def test_a_writer_that_is_late_makes_the_lake_late() -> None:
    landings = [lag.Landing(10.0, 50)]  # all that it wrote, of 1,000 rows that were due
    assert list(lag.lags(landings, 100.0, 10.0, 10.0)) == [9.5]


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100)])
def test_a_quantile_is_a_value_that_was_measured(share: float, value: float) -> None:
    assert lag.quantile(list(range(1, 101)), share) == value
    assert lag.quantile([7.0], share) == 7.0


@pytest.mark.parametrize(
    ("short", "long", "highest", "tried"),
    [
        ({1: 2.0, 2: 3.0, 4: 13.0}, {1: 2.0, 2: 4.0}, 2, [(1, 60), (2, 60), (4, 60), (2, 900)]),
        ({1: 2.0, 2: 3.0, 4: 5.0}, {4: 12.0, 2: 11.9}, 2, [(1, 60), (2, 60), (4, 60), (4, 900), (2, 900)]),
        ({1: 12.0}, {}, None, [(1, 60)]),
        ({1: 1.0, 2: 13.0}, {1: 13.0}, None, [(1, 60), (2, 60), (1, 900)]),
    ],
)
def test_the_highest_rate_holds_for_the_whole_time(
    short: Mapping[float, float], long: Mapping[float, float], highest: float | None, tried: list[tuple[float, float]]
) -> None:
    best, steps = lag.highest_rate(list(short), lambda rate, s: step(rate, s, (short if s == 60 else long)[rate]), LIMIT, 60, 900)
    assert (best and best.rate) == highest
    assert [(entry.rate, entry.seconds) for entry in steps] == tried


def test_a_rate_at_which_a_row_is_missing_does_not_hold() -> None:
    assert step(1, 60, 1.0).holds(LIMIT)
    assert not step(1, 60, 1.0, is_whole=False).holds(LIMIT)
