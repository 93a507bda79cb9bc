"""The lag between rounds, the parts of each round, and its throughput, as pictures draw them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import examples
from support.worlds.memory_coordinator import table_status
from sys_tables.tables.tiering_rounds import TieringRoundRow
from tiering.model.status import TableStatus
from tiering.round_history import COLUMNS, PART_COLOURS, LagPoint, Wait, lag_points, parts_of, rows_per_second, waits

START = datetime(2026, 11, 30, 12, tzinfo=UTC)
PROMISE = 10
"""Seconds of the freshness."""


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def ended(state: str, began: int, finished: int, **more: Any) -> dict[str, Any]:
    row = dict.fromkeys(COLUMNS) | {"state": state, "trigger": "schedule", "pending_time": at(began), "finished_time": at(finished)}
    return row | {"duration_ms": (finished - began) * 1_000} | more


def brought(oldest: int, began: int, finished: int, **more: Any) -> dict[str, Any]:
    """Returns a round that brought all rows, of which the oldest was written at a second."""
    late = max(0, finished - oldest - PROMISE)
    return ended("SUCCEEDED", began, finished, deadline=at(oldest + PROMISE), missed_by_ms=late * 1_000, **more)


def status(second: int, lag: int | None) -> TableStatus:
    lag_ms = None if lag is None else lag * 1_000
    return table_status("a.t", freshness_ms=PROMISE * 1_000, observed_time=at(second), lag_ms=lag_ms)


def test_the_columns_are_those_of_the_system_table() -> None:
    assert set(COLUMNS) <= set(TieringRoundRow.__dataclass_fields__)


def test_the_lag_grows_from_the_oldest_row_until_a_round_has_brought_it() -> None:
    rounds = [brought(18, 20, 25), brought(0, 2, 4)]
    assert lag_points(rounds, status(31, 3)) == [
        *(LagPoint(at(0), 0), LagPoint(at(4), 4_000), LagPoint(at(4), 0)),
        *(LagPoint(at(18), 0), LagPoint(at(25), 7_000), LagPoint(at(25), 0)),
        *(LagPoint(at(28), 0), LagPoint(at(31), 3_000)),
    ]


def test_rows_that_were_written_during_a_round_wait_for_the_next_one() -> None:
    points = lag_points([brought(0, 2, 6), brought(4, 7, 9)], status(9, 0))
    assert points == [LagPoint(at(0), 0), LagPoint(at(6), 6_000), LagPoint(at(6), 2_000), LagPoint(at(9), 5_000), LagPoint(at(9), 0)]


def test_an_idle_table_has_no_lag() -> None:
    points = lag_points([brought(0, 2, 4), ended("EMPTY", 400, 401, deadline=at(14), missed_by_ms=0)], status(4_000, None))
    assert points[-2:] == [LagPoint(at(4), 0), LagPoint(at(4_000), 0)]


@pytest.mark.parametrize(
    "unfinished",
    [
        ended("FAILED", 0, 4, deadline=at(9)),
        ended("FORCE_FINISHED", 0, 4, deadline=at(9)),
        ended("RUNNING", 0, 4, deadline=at(9), finished_time=None),
        brought(0, 2, 4, trigger="upkeep"),
        brought(0, 2, 4) | {"deadline": None},
    ],
)
def test_other_rounds_end_no_wait(unfinished: dict[str, Any]) -> None:
    assert waits([unfinished], PROMISE * 1_000) == []
    assert lag_points([unfinished], status(9, 9)) == []


def test_a_freshness_that_was_shortened_meanwhile_makes_no_negative_lag() -> None:
    assert waits([brought(0, 1, 2)], 1_000) == [Wait(at(2), at(2))]


def test_the_throughput_is_that_of_rounds_with_rows() -> None:
    rounds = [ended("SUCCEEDED", 9, 11, records_written=50), ended("EMPTY", 5, 6, records_written=0), ended("SUCCEEDED", 0, 4)]
    assert rows_per_second([*rounds, ended("SUCCEEDED", 3, 3, records_written=2)]) == [2_000.0, 25.0]


def test_the_rest_of_a_round_is_split_as_its_tasks_read_and_wrote() -> None:
    row = ended("SUCCEEDED", 0, 10, waited_for_slot_ms=500, plan_ms=1_000, commit_ms=2_000, ack_ms=1_000, read_ms=30_000, write_ms=10_000)
    assert parts_of(row, 10_000) == {"plan": 1_000, "read": 4_500, "write": 1_500, "commit": 2_000, "ack": 1_000}
    assert parts_of(ended("FAILED", 0, 3), 3_000) == {"other": 3_000}
    assert parts_of(row, 2_000) == {"plan": 1_000, "commit": 1_000}  # the clock of the coordinator was set back


MILLISECONDS = st.none() | st.integers(0, 10_000_000)


@given(st.integers(0, 100_000), st.tuples(*[MILLISECONDS] * 7))
@settings(max_examples=examples(200))
def test_parts_are_never_negative_and_those_of_tasks_fit_into_the_round(seconds: int, values: tuple[int | None, ...]) -> None:
    names = ("waited_for_slot_ms", "plan_ms", "lease_ms", "read_ms", "write_ms", "commit_ms", "ack_ms")
    parts = parts_of(ended("SUCCEEDED", 0, seconds, **dict(zip(names, values, strict=True))), seconds * 1_000)
    assert list(parts) == [name for name in PART_COLOURS if name in parts]
    assert all(value > 0 for value in parts.values())
    assert sum(parts.get(name, 0) for name in ("read", "write", "other")) <= seconds * 1_000


@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 100), st.integers(0, 100))), st.integers(0, 2_000))
@settings(max_examples=examples(200))
def test_a_line_never_goes_back_in_time_and_is_never_negative(drawn: list[tuple[int, int, int]], lag: int) -> None:
    points = lag_points([brought(oldest, oldest + late, oldest + late + took) for oldest, late, took in drawn], status(5_000, lag))
    assert [point.at for point in points] == sorted(point.at for point in points)
    assert all(point.lag_ms >= 0 for point in points)
