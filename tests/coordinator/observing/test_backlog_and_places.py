"""What is shown of a table beside its lag: its backlog, its partitions, and where its lake copy is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.coordinator_world import World
from support.lake_world import LakeWorld
from tiering.cluster.embedded.rpc.writer import LogWriter
from tiering.coordinator.decisions.backlog import backlog_left
from tiering.model.rounds import RoundState


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[LakeWorld]:
    new_world = LakeWorld(tmp_path)
    yield new_world
    new_world.close()


def backlog(world: World) -> bool | None:
    [status] = world.coordinator.view().table_statuses()
    column = world.coordinator.view().status_columns().column("is_backlog")
    assert column.to_pylist() == [status.is_backlog]
    return status.is_backlog


def test_a_backlog_is_what_was_there_when_reading_began_and_ends_once(world: World) -> None:
    assert backlog(world) is None
    world.append(10)
    tierer, assignment = world.assigned()
    assert backlog(world) is None  # it did not look yet
    tierer.plan(assignment)
    assert backlog(world) is True
    world.restart()
    assert backlog(world) is True
    tierer.fail(assignment)
    world.append(5)
    world.later(60)
    again = tierer.get()
    tierer.commit(again)
    assert backlog(world) is True
    tierer.ack(again)
    assert backlog(world) is False
    tierer.finish(again)
    world.append(50)
    world.later(1_000)
    tierer.plan(tierer.get())
    assert backlog(world) is False


def test_a_table_without_rows_has_no_backlog(world: World) -> None:
    tierer, assignment = world.assigned()
    tierer.finish(assignment, empty=True)
    assert backlog(world) is False


def test_a_backlog_that_is_reached_in_part_goes_on_and_a_vanished_partition_has_none() -> None:
    assert backlog_left(None, {"0": 5}) is None
    assert backlog_left({"0": 10, "1": 3, "7/0": 9}, {"0": 9, "1": 3}) == {"0": 10}


def test_location_and_partitions_are_what_was_seen_last(lakes: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64())])
    table = lakes.table("visits", 1, ("region",), schema)
    plain = replace(table, partition_keys=())
    assert dict(lakes.coordinator.view().partition_counts([table])) == {table.table_id: 0}
    assert dict(lakes.coordinator.view().partition_counts([plain, replace(table, table_id=99)])) == {}
    assert lakes.coordinator.view().lake_location(table.table_id) is None
    writer = LogWriter(lakes.storage, table.path, "test")
    for region in ("eu", "us", "eu"):
        writer.append(pa.table({"region": [region], "id": [1]}, schema=schema))
    assert lakes.tier(table).state is RoundState.SUCCEEDED
    lakes.coordinator.observer.observe_all()
    monkeypatch.setattr(lakes.lake, "view", None)  # who looks asks the lake nothing
    view = lakes.coordinator.view()
    assert dict(view.partition_counts([table])) == {table.table_id: 2}
    assert view.lake_location(table.table_id) == lakes.iceberg(table).location()
    assert view.lake_location(99) is None
    lakes.restart()
    assert lakes.coordinator.view().lake_location(table.table_id) == lakes.iceberg(table).location()
