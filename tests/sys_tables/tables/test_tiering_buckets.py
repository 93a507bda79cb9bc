"""`sys.tiering_buckets`: the log as it was looked at, beside what is on record of the lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.memory_cluster import log_table
from support.worlds.coordinator_world import World
from support.worlds.lake_world import SCHEMA, LakeWorld
from sys_tables.declare.scan import Filter, Operator, ScanRequest
from sys_tables.registry import default_registry
from tiering.cluster.embedded.rpc.writer import LogWriter
from tiering.model.tables import TablePath

TABLE = default_registry().table("tiering_buckets")


@pytest.fixture
def world() -> Iterator[World]:
    opened = World()
    yield opened
    opened.coordinator.close()


def rows(world: World | LakeWorld, **equals: str) -> list[dict[str, Any]]:
    world.coordinator.observer.observe_all()
    filters = tuple(Filter(name, Operator.EQUAL, (value,)) for name, value in equals.items())
    return [vars(row) for row in TABLE.rows(world.coordinator.view(), ScanRequest(filters=filters))]  # type: ignore[union-attr]


def test_a_bucket_is_shown_from_its_first_record_until_the_lake_has_it(world: World) -> None:
    world.append(10, bucket=1)
    first, second = rows(world)
    assert (first["bucket_id"], first["log_end_offset"], first["lag_records"], first["lag_ms"]) == (0, 0, 0, 0)
    assert (second["log_start_offset"], second["log_end_offset"], second["lake_offset"], second["lag_records"]) == (0, 10, None, 10)
    assert (second["staged_offset"], second["backlog_offset"], second["is_backlog"]) == (None, None, None)
    assert (second["partition_id"], second["partition_name"]) == (None, None)
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    (_, staged) = rows(world)
    assert (staged["lake_offset"], staged["staged_offset"], staged["backlog_offset"], staged["is_backlog"]) == (None, 10, 10, True)
    assert staged["lag_ms"] is not None
    assert staged["lag_ms"] >= 180_000
    tierer.ack(assignment)
    tierer.finish(assignment)
    (_, done) = rows(world)
    assert (done["lake_offset"], done["staged_offset"], done["lag_records"], done["is_backlog"]) == (10, None, 0, False)
    assert (done["lag_ms"], done["oldest_pending_time"]) == (0, None)
    assert done["offsets_observed_time"] == world.clock.now()


def test_each_bucket_has_the_age_of_its_own_rows(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    table = world.table("orders")
    writer = LogWriter(world.storage, table.path, "test")
    for number in range(2):
        writer.append(pa.table({"id": [number], "text": ["x"]}, schema=SCHEMA))
        world.clock.advance(30)
    ages = [row["lag_ms"] for row in rows(world)]
    assert sorted(ages) == [30_000, 60_000]
    world.due()
    world.begin(table).end()
    assert [row["lag_ms"] for row in rows(world)] == [0, 0]
    world.close()


def test_names_narrow_the_look() -> None:
    world = World((log_table(), log_table(2, TablePath("sales", "other"))))
    assert {row["table_name"] for row in rows(world)} == {"orders", "other"}
    assert {row["table_name"] for row in rows(world, table_name="other", database_name="sales")} == {"other"}
    assert rows(world, database_name="none") == []
    world.coordinator.close()
