"""The age of the lake copy between rounds, and the parts of each round, as a report draws them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.depth import examples
from tiering.cli.report.history import PARTS, AgePoint, age_points, parts_of

START = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def ended(state: str, began: int, finished: int, **more: Any) -> dict[str, Any]:
    times = {"started_time": at(began), "finished_time": at(finished), "duration_ms": (finished - began) * 1_000}
    names = ("waited_for_slot_ms", "plan_ms", "lease_ms", "read_ms", "write_ms", "commit_ms", "ack_ms")
    return {"state": state, **times, **dict.fromkeys(names), **more}


def test_the_age_grows_until_a_round_has_caught_up() -> None:
    rounds = [ended("SUCCEEDED", 20, 25), ended("FAILED", 12, 13), ended("EMPTY", 0, 1), ended("FORCE_FINISHED", 14, 15)]
    assert age_points(rounds, at(31)) == [
        AgePoint(at(1), 1_000),
        AgePoint(at(25), 25_000),
        AgePoint(at(25), 5_000),
        AgePoint(at(31), 11_000),
    ]


def test_without_a_round_that_caught_up_there_is_no_age() -> None:
    unstarted = {**ended("CANCELLED", 0, 1), "started_time": None}
    assert age_points([unstarted, ended("FAILED", 0, 4)], at(9)) == []


def test_the_rest_of_a_round_is_split_as_its_tasks_read_and_wrote() -> None:
    row = ended("SUCCEEDED", 0, 10, waited_for_slot_ms=500, plan_ms=1_000, commit_ms=2_000, ack_ms=1_000, read_ms=30_000, write_ms=10_000)
    assert parts_of(row) == {"waiting": 500, "plan": 1_000, "read": 4_500, "write": 1_500, "commit": 2_000, "ack": 1_000}
    assert parts_of(ended("FAILED", 0, 3)) == {"other": 3_000}


MILLISECONDS = st.none() | st.integers(0, 10_000_000)


@given(st.integers(0, 100_000), st.tuples(*[MILLISECONDS] * 7))
@settings(max_examples=examples(200))
def test_parts_are_never_negative_and_those_of_tasks_fit_into_the_round(seconds: int, values: tuple[int | None, ...]) -> None:
    names = ("waited_for_slot_ms", "plan_ms", "lease_ms", "read_ms", "write_ms", "commit_ms", "ack_ms")
    parts = parts_of(ended("SUCCEEDED", 0, seconds, **dict(zip(names, values, strict=True))))
    assert list(parts) == [name for name in PARTS if name in parts]
    assert all(value > 0 for value in parts.values())
    assert sum(parts.get(name, 0) for name in ("read", "write", "other")) <= seconds * 1_000
