"""`sys.lake_table_health`: what the coordinator saw last of each lake table, and NULL for what it has not looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.worlds.data_folders import FolderWorld
from support.worlds.lake_world import LakeWorld
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry
from tiering.access.grants import Grants
from tiering.access.identity import Authentication, Identity, acting_as
from tiering.cluster.embedded.stored_cluster import ReadOnlyEmbeddedCluster
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.coordinator.status.offline_view import offline_view
from tiering.errors import LakeUnavailable
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.sql_types import column_list
from tiering.model.tables import TableInfo

TABLE = default_registry().table("lake_table_health")
NAMES = {"database_name", "table_name", "table_id", "lake_format", "reason"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FolderWorld]:
    opened = FolderWorld(tmp_path / "data")
    yield opened
    opened.close()


def rows(world: LakeWorld, **equals: str) -> list[dict[str, Any]]:
    filters = tuple(Filter(name, Operator.EQUAL, (value,)) for name, value in equals.items())
    return [asdict(row) for row in TABLE.rows(world.coordinator.view(), ScanRequest(filters=filters))]  # type: ignore[union-attr,call-overload]


def tier(world: LakeWorld, table: TableInfo, rounds: int) -> None:
    for _ in range(rounds):
        world.append(table, sum(world.ends(table).values()), 10)
        assert world.tier(table).error is None


def observed(world: LakeWorld) -> dict[str, Any]:
    world.clock.advance(10)
    world.coordinator.lake_health.observe()
    (row,) = rows(world)
    return row


def test_the_columns_come_in_this_order() -> None:
    assert " ".join(TABLE.schema.names) == (
        "database_name table_name table_id lake_format score reason data_files small_files average_file_bytes target_file_bytes "
        "delete_files dead_row_share snapshots oldest_snapshot_time manifests metadata_files metadata_bytes rewrite_bytes "
        "last_upkeep_time last_upkeep_outcome next_upkeep_time upkeep_waits_for upkeep_paused_by next_action lake_schema observed_time "
        "published_snapshot_id published_time publish_lag_ms publish_error"
    )


def test_a_table_without_a_commit_has_no_score_and_says_why(world: FolderWorld) -> None:
    table = world.table("orders")
    row = observed(world)
    assert (row["database_name"], row["table_name"], row["table_id"], row["lake_format"]) == ("sales", "orders", table.table_id, "iceberg")
    assert row["reason"] == "Lakeward has not committed to the lake table yet"
    assert {name for name, value in row.items() if value is not None} == NAMES


@pytest.mark.parametrize("kind", LAKE_KINDS, ids=lambda kind: kind.name)
def test_a_table_is_shown_as_its_lake_is_and_ages_with_each_round(tmp_path: Path, kind: LakeKind) -> None:
    world = LakeWorld(tmp_path, kind=kind)
    table = world.table("orders", **{"datalake.auto-compaction": "false"})
    tier(world, table, 1)
    first = observed(world)
    view = world.view(table)
    assert (first["score"], first["reason"], first["lake_format"]) == (100, None, kind.format)
    assert (first["data_files"], first["small_files"], first["snapshots"]) == (2, 2, 1)
    assert first["average_file_bytes"] == (view.size_bytes or 0) // 2 < first["target_file_bytes"]
    assert (first["delete_files"], first["dead_row_share"], first["rewrite_bytes"]) == (0, 0.0, 0)
    assert first["oldest_snapshot_time"] == min(snapshot.committed_at for snapshot in view.snapshots.values())
    assert first["metadata_files"] > first["manifests"] >= 1
    assert first["observed_time"] == world.clock.now()
    assert first["lake_schema"].startswith(column_list(table.schema).replace(" NOT NULL", ""))
    tier(world, table, 9)
    aged = observed(world)
    assert (aged["data_files"], aged["small_files"], aged["snapshots"]) == (20, 20, 10)
    assert aged["score"] < 100
    assert aged["reason"].startswith("20 small files in 2 buckets: a scan opens ")
    assert aged["rewrite_bytes"] == world.view(table).size_bytes
    assert aged["metadata_bytes"] > first["metadata_bytes"]
    world.close()


def test_a_scan_reads_no_lake(world: FolderWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.table("orders")
    tier(world, table, 1)
    row = observed(world)
    monkeypatch.setattr(type(world.lake), "view", lambda *_: pytest.fail("the lake was read"))
    monkeypatch.setattr(type(world.lake), "measure", lambda *_: pytest.fail("the lake was read"))
    assert rows(world) == [row]


def test_a_lake_that_does_not_answer_leaves_the_last_observation(world: FolderWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.table("orders")
    tier(world, table, 1)
    row = observed(world)
    tier(world, table, 1)

    def unavailable(*_: object) -> None:
        raise LakeUnavailable("the lake hangs")

    with monkeypatch.context() as broken:
        broken.setattr(type(world.lake), "measure", unavailable)
        assert observed(world) == row
    assert observed(world) == row, "it is left alone for a while"
    world.clock.advance(600)
    assert observed(world)["snapshots"] == 2


def test_a_lake_table_that_was_dropped_has_no_score(world: FolderWorld) -> None:
    table = world.table("orders")
    tier(world, table, 1)
    assert observed(world)["score"] == 100
    world.iceberg_catalog().drop_table(str(table.path))
    world.clock.advance(600)
    row = observed(world)
    assert (row["score"], row["reason"], row["data_files"]) == (None, "there is no lake table of this name", None)
    assert row["observed_time"] == world.clock.now()


def test_names_narrow_the_rows_and_hidden_tables_have_none(world: FolderWorld, tmp_path: Path) -> None:
    for name in ("orders", "salaries"):
        world.table(name)
    assert [row["table_name"] for row in rows(world)] == ["orders", "salaries"]
    assert [row["table_name"] for row in rows(world, table_name="salaries")] == ["salaries"]
    assert rows(world, database_name="none") == []
    (tmp_path / "policy.cedar").write_text(
        'permit (principal == User::"ana", action in Action::"read", resource == Table::"sales.orders");\n'
    )
    world.coordinator.grants = Grants(tmp_path / "policy.cedar")
    with acting_as(Identity("ana", Authentication.TOKEN)):
        assert [row["table_name"] for row in rows(world)] == ["orders"]
        assert rows(world, table_name="salaries") == []


def test_offline_the_lake_is_read_by_the_scan(world: FolderWorld) -> None:
    table = world.table("orders")
    tier(world, table, 10)
    row = observed(world)
    store, cluster = SqlStore.for_reading(world.folder.root / "coordinator.db"), ReadOnlyEmbeddedCluster(world.folder.cluster)
    (offline,) = TABLE.rows(offline_view(store, cluster, world.clock, lambda _: world.lake), ScanRequest())  # type: ignore[misc]
    (unknown,) = TABLE.rows(offline_view(store, cluster, world.clock), ScanRequest())  # type: ignore[misc]
    cluster.close()
    store.close()
    assert asdict(offline) == row
    assert (unknown.score, unknown.reason, unknown.observed_time) == (None, None, None)
