"""`sys.tiering_buckets`: the log as it was looked at, beside what is on record of the lake."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.clusters.memory_cluster import log_table
from support.clusters.older_version import TWICE, older_write
from support.worlds.coordinator_world import World
from support.worlds.data_folders import FolderWorld
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, SCHEMA, LakeWorld
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry
from tiering.cluster.embedded.stored_cluster import ReadOnlyEmbeddedCluster
from tiering.cluster.log_writer import LogWriter
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import OtherServiceRecord
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.coordinator.status.offline_view import offline_view
from tiering.errors import BucketStopped
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.rounds import RoundState
from tiering.model.tables import BucketKey, TablePath
from tiering.procedures.skip_record import SkipRecord

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


def places(row: dict[str, Any]) -> tuple[int | None, int | None, int | None]:
    return row["log_only_records"], row["both_records"], row["lake_only_records"]


def errors(row: dict[str, Any]) -> tuple[str | None, str | None, int | None]:
    return row["error_class"], row["error_message"], row["stopped_at_offset"]


def ids(start: int, count: int) -> pa.Table:
    return pa.table({"id": range(start, start + count), "text": ["x"] * count}, schema=SCHEMA)


def test_records_move_from_the_log_into_both_and_into_the_lake_alone(tmp_path: Path) -> None:
    """Live, and offline; after each step, and after a restart."""
    world = FolderWorld(tmp_path / "data")
    table = world.table("orders", 1, log_ttl="1 h")
    writer = LogWriter(world.storage, table.path, "test")

    def shown() -> tuple[int | None, int | None, int | None]:
        (row,) = rows(world)
        store, cluster = SqlStore.for_reading(world.folder.root / "coordinator.db"), ReadOnlyEmbeddedCluster(world.folder.cluster)
        (offline,) = TABLE.rows(offline_view(store, cluster, world.clock), ScanRequest())  # type: ignore[misc]
        cluster.close()
        store.close()
        assert places(vars(offline)) == places(row)
        return places(row)

    assert shown() == (0, 0, 0)
    writer.append(ids(0, 10))
    assert shown() == (10, 0, 0)
    world.tier(table)
    assert shown() == (0, 10, 0)
    world.clock.advance(3_601)
    writer.append(ids(10, 5))
    assert shown() == (5, 10, 0)
    world.storage.maintenance.run()
    assert shown() == (5, 0, 10)
    world.tier(table)
    world.restart()
    assert shown() == (0, 5, 10)
    world.close()


def test_what_the_log_had_lost_before_the_first_round_is_in_neither(world: World) -> None:
    world.append(10)
    world.cluster.logs[1][BucketKey(None, 0)] = (4, 10)
    tierer, assignment = world.assigned()
    tierer.commit(assignment)
    tierer.ack(assignment)
    tierer.finish(assignment)
    first, second = rows(world)
    assert (places(first), places(second)) == ((0, 6, 0), (0, 0, 0))
    world.cluster.logs[1][BucketKey(None, 0)] = (9, 12)
    world.clock.advance(1)
    assert places(rows(world)[0]) == (2, 1, 5)


def test_offsets_that_an_older_version_or_accept_recorded_do_not_tell_where_rows_are(world: World) -> None:
    world.append(10)
    tierer, assignment = world.assigned()
    for step in (tierer.commit, tierer.ack, tierer.finish):
        step(assignment)
    lake = world.record().lake
    assert places(rows(world)[0]) == (0, 10, 0)
    for untold in (replace(lake, starts=None), replace(lake, marker_tells=False)):
        with world.coordinator.table_records.changing():
            world.coordinator.table_records.put(Change(world.record()).update(lake=untold))
        assert places(rows(world)[0]) == (None, None, None)


def test_what_another_service_tiered_is_in_the_lake(world: World) -> None:
    """The table's own status says so, too; the ends alone do not show where each record is."""
    world.append(10)
    elsewhere = OtherServiceRecord("cluster", 3, {"0": 4}, world.clock.now())
    with world.coordinator.table_records.changing():
        world.coordinator.table_records.put(Change(world.record()).update(elsewhere=elsewhere))
    first, second = rows(world)
    assert (first["lake_offset"], first["lag_records"], places(first)) == (4, 6, (None, None, None))
    assert (second["lake_offset"], second["lag_records"]) == (None, 0)


def test_the_lake_of_a_primary_key_table_has_rows_and_no_records(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    table = world.primary_key_table("orders", 1, log_ttl="1 h")
    row = pa.table({"id": [1], "text": ["x"]}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(table.path, row, "test", 0)
    assert [places(row) for row in rows(world)] == [(1, 0, None)]
    world.tier(table)
    assert [places(row) for row in rows(world)] == [(0, 1, None)]
    world.close()


def test_a_bucket_that_stands_at_a_record_says_where_also_while_the_others_go_on(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    schema = pa.schema([*PRIMARY_KEY_SCHEMA, ("tags", pa.map_(pa.string(), pa.int32()))])
    table = world.primary_key_table("orders", 2, schema)
    good = [{"id": number, "text": "x", "tags": []} for number in range(8)]
    world.storage.upsert(table.path, pa.Table.from_pylist(good, schema=schema), "test", 0)
    world.tier(table)
    assert {errors(row) for row in rows(world)} == {(None, None, None)}
    older_write(world.storage, table.path, pa.Table.from_pylist([{"id": 1, "text": "y", "tags": TWICE}], schema=schema), 0, applied=False)
    with pytest.raises(BucketStopped) as raised:
        world.storage.upsert(table.path, pa.Table.from_pylist([{**good[1], "text": "z"}], schema=schema), "test", 1)
    stopped, at = BucketKey.parse(raised.value.ids["bucket"]), int(raised.value.ids["offset"])
    assert world.tier(table).state is RoundState.SUCCEEDED
    by_bucket = {row["bucket_id"]: errors(row) for row in rows(world)}
    error_class, message, offset = by_bucket.pop(stopped.bucket_id)
    assert (error_class, offset) == ("BucketStopped", at)
    assert str(message) == "its rows cannot take the record there"
    assert set(by_bucket.values()) == {(None, None, None)}
    call = SkipRecord(table.path, stopped.bucket_id, at, caller="ann", reason="a test")
    asyncio.run(world.coordinator.control.perform(call))
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert {errors(row) for row in rows(world)} == {(None, None, None)}
    world.close()


@pytest.mark.parametrize(("ids_of_error", "offset"), [({"starting_offset": "40"}, 40), ({}, 7)])
def test_an_error_of_the_table_that_names_a_bucket_is_that_buckets(world: World, ids_of_error: dict[str, str], offset: int) -> None:
    world.append(10)
    tierer, assignment = world.assigned()
    error = {"error_class": "DataCorrupt", "error_message": "the segment does not match its checksum"}
    tierer.fail(assignment, **error, error_ids={"bucket": "1", **ids_of_error})
    lake = replace(world.record().lake, offsets={"1": 7}, starts={})
    with world.coordinator.table_records.changing():
        world.coordinator.table_records.put(Change(world.record()).update(lake=lake))
    first, second = rows(world)
    assert errors(first) == (None, None, None)
    assert errors(second) == ("DataCorrupt", "the segment does not match its checksum", offset)


def test_the_place_of_rows_is_unknown_in_a_lake_that_was_rolled_back(world: World) -> None:
    world.append(10)
    tierer, assignment = world.assigned()
    tierer.run(assignment)
    assert places(rows(world)[0]) == (0, 10, 0)
    world.append(5)
    world.due()
    tierer.fail(tierer.get(), error_class="LakeRolledBack", error_retryable=False)
    assert places(rows(world)[0]) == (None, None, None)
