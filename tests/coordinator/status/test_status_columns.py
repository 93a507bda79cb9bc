"""Statuses by column say what statuses by row say, whatever happens to the tables and in whatever order looks come."""

from __future__ import annotations

import random
from dataclasses import fields
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from support.background import tick
from support.clusters.memory_cluster import log_table
from support.values.drawn_records import disturb
from support.worlds.coordinator_world import START, World
from tiering.coordinator.observing import lag
from tiering.coordinator.status import status_columns
from tiering.coordinator.status.live_view import View
from tiering.model.status import TableStatus
from tiering.model.tables import BucketKey, TablePath

NAMES = [field.name for field in fields(TableStatus)]
TABLES = 40


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Enough tables that columns are cached, and few enough to compare each cell."""
    monkeypatch.setattr(status_columns, "DIRECT_ROWS", 3)
    world = World(tuple(log_table(number, TablePath(f"d{number % 3}", f"t{number:03}"), buckets=1) for number in range(1, TABLES + 1)))
    yield world
    world.coordinator.close()


def by_row(view: View) -> list[dict[str, Any]]:
    return [{name: getattr(status, name) for name in NAMES} for status in view.table_statuses()]


def by_column(view: View) -> list[dict[str, Any]]:
    look = view.status_columns()
    return pa.table({name: look.column(name) for name in NAMES}).to_pylist()


@pytest.mark.parametrize("story", range(12))
def test_columns_say_what_rows_say(many: World, story: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.Random(story)
    monkeypatch.setattr(lag, "ON_DEMAND_TABLES", seed.choice([0, TABLES]))
    times = many.cluster.oldest_timestamps
    monkeypatch.setattr(many.cluster, "oldest_timestamps", lambda table, at: times(table, at) if table.table_id % 4 else {})
    views = [many.coordinator.view()]
    for _ in range(6):
        disturb(many, seed)
        for table in seed.sample(list(many.cluster.by_path.values()), 5):
            many.append(seed.randrange(1, 9), table=table)
        many.clock.advance(seed.choice([0, 3, 400]))
        many.clock.wall += timedelta(seconds=seed.choice([0, 0, 7, -7]))
        if seed.random() < 0.5:
            many.coordinator.observer.observe_all()
        views.append(many.coordinator.view())
        # Older looks are asked between newer ones, as slow readers do.
        assert by_column(views[-1]) == by_row(views[-1])
        older = seed.choice(views)
        assert by_column(older) == by_row(older)


def test_tables_that_come_and_go_keep_their_place(many: World) -> None:
    assert by_column(many.coordinator.view()) == by_row(many.coordinator.view())
    first = log_table(99, TablePath("a", "first"), buckets=1)
    del many.cluster.by_path[TablePath("d1", "t007")]
    many.cluster.by_path[first.path] = first
    many.cluster.logs[99] = {BucketKey(None, 0): (0, 5)}
    tick(many.coordinator)
    view = many.coordinator.view()
    paths = [(row["database_name"], row["table_name"]) for row in by_column(view)]
    assert paths[0] == ("a", "first")
    assert ("d1", "t007") not in paths
    assert paths == sorted(paths)
    assert by_column(view) == by_row(view)
    many.later(3_601)
    assert 7 not in many.coordinator.table_records.all()
    assert by_column(many.coordinator.view()) == by_row(many.coordinator.view())


def test_a_look_shows_the_pending_rows_that_its_first_column_showed(many: World) -> None:
    many.coordinator.observer.observe_all()
    look = many.coordinator.view().status_columns()
    lags = look.column("lag_ms").to_pylist()
    many.append(10)
    many.clock.advance(60)
    many.coordinator.observer.observe_all()
    few = look.take(pa.array([0, 1]))
    assert few.column("lag_ms").to_pylist() == lags[:2]
    assert few.column("pending_records").to_pylist() == [0, 0]
    assert few.column("observed_time").to_pylist() == [START, START]


def test_only_what_is_left_of_a_look_is_looked_for_in_the_cluster(many: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[TablePath] = []
    offsets = many.cluster.offsets
    monkeypatch.setattr(many.cluster, "offsets", lambda table: looked_up.append(table.path) or offsets(table))
    look = many.coordinator.view().status_columns()
    look.column("status")
    assert looked_up == []
    assert look.take(pa.array([1])).column("pending_records").to_pylist() == [0]
    assert len(looked_up) == 1
