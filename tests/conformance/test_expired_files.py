"""Expiry, sweeps and deletion of old metadata files with every kind of catalog and store: files that are still named stay."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from structlog.testing import capture_logs

from support.object_store.rest_server import WAREHOUSE, RestCatalog
from support.object_store.s3_server import S3Server
from support.worlds.lake_world import LakeWorld
from tiering.coordinator.calls.sweep_lake import sweep_lake
from tiering.coordinator.lake_repair.background_sweeps import EXPIRED_MS, BackgroundSweeps
from tiering.errors import LakeUnavailable
from tiering.lake import table_options
from tiering.lake.iceberg.catalogs.file_io import LakeFileIO
from tiering.lake.iceberg.catalogs.opening import open_catalog
from tiering.lake.iceberg.commit import old_metadata
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.iceberg.schema.layout import PREVIOUS_VERSIONS
from tiering.lake.registry import local_lake_properties
from tiering.lake.table_options import SNAPSHOT_MAX_AGE, SNAPSHOT_MIN_COUNT
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.procedures.sweep_lake import SweepLake

SQL, HADOOP, HDFS, SQL_S3, REST_S3 = "sql", "hadoop", "hadoop on HDFS", "sql in S3", "rest in S3"
REFERENCES = {"audit": "tag", "dev": "branch"}
VERSIONS = 3
"""Former metadata files that the newest one names."""


class AnyCatalogWorld(LakeWorld):
    """A `LakeWorld` whose lake may have any catalog."""

    def iceberg_catalog(self) -> Catalog:
        return open_catalog(self.lake_properties)  # pyiceberg has no hadoop catalog


def properties_of(kind: str, folder: Path, request: pytest.FixtureRequest) -> Mapping[str, str]:
    if kind == HADOOP:
        return {"type": "hadoop", "warehouse": str(folder / "warehouse")}
    if kind == HDFS:
        return {"type": "hadoop", "warehouse": f"hdfs://{request.getfixturevalue('hdfs')}/expired-{uuid.uuid4().hex}"}
    if kind == SQL_S3:
        store: S3Server = request.getfixturevalue("s3_store")
        place = f"{WAREHOUSE}-{uuid.uuid4().hex}"
        return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": place, **store.place, **store.keys}
    if kind == REST_S3:
        catalog: RestCatalog = request.getfixturevalue("rest_catalog_on_s3")
        return {**catalog.lake, **catalog.secrets}
    return local_lake_properties(folder)


@pytest.fixture(params=[SQL, HADOOP, *(pytest.param(kind, marks=pytest.mark.in_turn("world")) for kind in (HDFS, SQL_S3, REST_S3))])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AnyCatalogWorld]:
    monkeypatch.setattr(table_options, "LEAST_MAX_AGE_MS", 1)
    monkeypatch.setattr(old_metadata, "GUARD_MS", 0)
    lake_world = AnyCatalogWorld(tmp_path, lake_properties=properties_of(request.param, tmp_path, request))
    lake_world.clock.wall = datetime.now(UTC) + timedelta(days=2)  # files carry the machine's time
    yield lake_world
    lake_world.close()


def expiring_table(world: AnyCatalogWorld) -> TableInfo:
    table = world.table(f"orders_{uuid.uuid4().hex[:8]}")  # one REST server serves all tests
    world.storage.set_table_option(table.path, SNAPSHOT_MAX_AGE.name, "1 ms")
    world.storage.set_table_option(table.path, SNAPSHOT_MIN_COUNT.name, "1")
    world.storage.set_table_option(table.path, f"iceberg.{PREVIOUS_VERSIONS}", str(VERSIONS))
    return world.storage.table(table.path)


def tier(world: AnyCatalogWorld, table: TableInfo, rounds: int, first: int = 0) -> None:
    for number in range(first, first + rounds):
        world.append(table, number * 10, 10)
        assert world.tier(table).state is RoundState.SUCCEEDED


def refer(world: AnyCatalogWorld, table: TableInfo) -> dict[str, int]:
    """A user's tag, and two rounds later a branch, each on the head of its moment; by name the snapshots."""
    snapshots = {}
    for number, (name, kind) in enumerate(REFERENCES.items()):
        tier(world, table, 2, first=2 * number)
        loaded = world.iceberg(table)
        head = loaded.metadata.current_snapshot_id
        assert head is not None
        change = loaded.manage_snapshots()
        (change.create_tag(head, name) if kind == "tag" else change.create_branch(head, name)).commit()
        snapshots[name] = head
    return snapshots


def sweep(world: AnyCatalogWorld, table: TableInfo) -> int:
    """Two sweeps: the first one learns which files are dead."""
    removed = 0
    for _ in range(2):
        [result] = sweep_lake(world.coordinator.call_parts, SweepLake(table.path, 0, caller="ann"))
        removed += result.removed
        world.clock.advance(1)
    return removed


def named_metadata(loaded: Table) -> set[str]:
    return {loaded.metadata_location, *(entry.metadata_file for entry in loaded.metadata.metadata_log)}


def assert_whole(world: AnyCatalogWorld, table: TableInfo, references: Mapping[str, int]) -> None:
    """Every snapshot is readable, every reference of users is where it was, and each metadata file that is named is there."""
    loaded = world.iceberg(table)
    assert {name: loaded.metadata.refs[name].snapshot_id for name in references} == references
    for snapshot in loaded.metadata.snapshots:
        assert loaded.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows > 0
    assert all(loaded.io.new_input(location).exists() for location in named_metadata(loaded))


def stored_metadata(world: AnyCatalogWorld, table: TableInfo) -> set[str]:
    files = world.lake.stored_files(world.view(table))
    return {file.name for file in files if file.name.endswith(".metadata.json")}


def test_only_files_that_no_metadata_names_are_deleted(world: AnyCatalogWorld) -> None:
    table = expiring_table(world)
    references = refer(world, table)
    world.by_hand.rewrite(table.path)
    tier(world, table, 5, first=4)
    assert len(world.iceberg(table).metadata.snapshots) <= len(references) + 3
    assert_whole(world, table, references)
    assert sweep(world, table) > 0
    assert_whole(world, table, references)
    assert stored_metadata(world, table) == {location.rsplit("/", 1)[-1] for location in named_metadata(world.iceberg(table))}
    tier(world, table, 1, first=9)
    world.assert_exact(table)


class Refusing:
    """A store that refuses every delete, and counts the attempts."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.tries = 0
        patch.setattr(LakeFileIO, "delete", self._refuse)
        patch.setattr(IcebergLake, "delete_file", self._refuse)

    def _refuse(self, *_: Any) -> None:
        self.tries += 1
        raise LakeUnavailable("AccessDenied: s3:DeleteObject")


def test_a_store_that_refuses_deletions_is_named_once_and_rounds_go_on(world: AnyCatalogWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    table, sweeps = expiring_table(world), BackgroundSweeps(world.coordinator.call_parts)
    with capture_logs() as lines, monkeypatch.context() as patch:
        refusing = Refusing(patch)
        for number in range(0, 8, 2):
            tier(world, table, 2, first=number)
            sweeps.run()
            world.clock.advance(EXPIRED_MS / 1_000 + 1)
    warnings = [line["event"] for line in lines if line["log_level"] == "warning"]
    assert sorted(warnings) == [
        "a lake table was not swept completely; the sweep is retried",
        "old metadata files are not deleted; the sweep tries again",
    ]
    assert refusing.tries > len(warnings)
    assert_whole(world, table, {})
    assert sweep(world, table) > 0
    assert_whole(world, table, {})
    world.assert_exact(table)
