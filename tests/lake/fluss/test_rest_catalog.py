"""The lake of a Fluss cluster by a REST catalog, which is named in Fluss's words: Iceberg's own handlers answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.table.update import RemoveSnapshotsUpdate

from support.lakes.lake_kit import LakeKit, bucket
from support.lakes.lake_proof import assert_every_offset_once, marker_of
from support.running.rest_catalog import rest_catalog
from tiering.errors import CommitOutcomeUnknown
from tiering.lake.fluss.options import lake_of_fluss
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import SnapshotRetention, TablePath


@dataclass(frozen=True)
class World:
    """A lake behind a REST catalog, and rounds by hand."""

    kit: LakeKit
    lake: IcebergLake
    properties: dict[str, str]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Options with which Flink's tiering job would be started."""
    folder = tmp_path_factory.mktemp("rest")
    with rest_catalog(folder) as uri:
        lake = {"datalake.iceberg.type": "rest", "datalake.iceberg.uri": uri, "datalake.iceberg.warehouse": str(folder / "lake")}
        yield {"datalake.format": "iceberg", **lake}


@pytest.fixture
def world(options: dict[str, str], tmp_path: Path) -> World:
    properties = dict(lake_of_fluss(options).properties)
    return World(LakeKit(tmp_path), IcebergLake(properties), properties)


def test_rounds_commit_one_behind_the_other(world: World) -> None:
    table = world.kit.table()
    first = world.kit.prepare(table, "round-1", {bucket(0): 30, bucket(1): 20}, lake=world.lake).commit()
    second = world.kit.prepare(table, "round-2", {bucket(0): 45, bucket(1): 20}, lake=world.lake).commit()

    view = world.lake.view(table.path)
    assert view is not None
    assert set(view.snapshots) == {first, second}
    assert_every_offset_once(world.properties, table.path, {0: 45, 1: 20})
    marker = marker_of(world.properties, table.path)
    assert marker is not None
    assert marker.round_id == "round-2"
    assert "sales" in world.lake.databases()


def test_of_two_rounds_on_one_base_one_wins(world: World) -> None:
    table = world.kit.table("raced", 8)
    world.lake.ensure_table(table)
    late = world.kit.prepare(table, "late", {bucket(0): 10}, lake=world.lake)
    world.kit.prepare(table, "early", {bucket(0): 20}, lake=world.lake).commit()

    with pytest.raises(CommitOutcomeUnknown):
        late.commit()

    assert_every_offset_once(world.properties, table.path, {0: 20})


def test_a_table_that_is_not_there_is_none(world: World) -> None:
    assert world.lake.view(TablePath("sales", "nothing")) is None
    assert world.lake.view(TablePath("nobodys", "nothing")) is None


def test_snapshots_expire_by_age_and_times_of_the_rest_can_be_queried(world: World) -> None:
    table = replace(world.kit.table("expiring", 9), snapshot_retention=SnapshotRetention(1, 2))
    for number in range(6):
        world.kit.prepare(table, f"round-{number}", {bucket(0): 10 * (number + 1)}, lake=world.lake).commit()
        if number == 1:
            loaded = load_catalog("lake", **world.properties).load_table(str(table.path))
            loaded.manage_snapshots().create_tag(loaded.metadata.snapshots[0].snapshot_id, "audit").commit()
    metadata = load_catalog("lake", **world.properties).load_table(str(table.path)).metadata
    assert len(metadata.snapshots) <= 2 + 1 + 1
    assert metadata.refs["audit"].snapshot_id == metadata.snapshots[0].snapshot_id
    assert [entry.snapshot_id for entry in metadata.snapshot_log] == [snapshot.snapshot_id for snapshot in metadata.snapshots[1:]]
    assert_every_offset_once(world.properties, table.path, {0: 60})


def test_a_server_forgets_all_times_before_a_gap_and_so_its_tables_are_not_thinned(world: World) -> None:
    table = world.kit.table("thinned", 10)
    for number in range(4):
        world.kit.prepare(table, f"round-{number}", {bucket(0): 10 * (number + 1)}, lake=world.lake).commit()
    catalog = load_catalog("lake", **world.properties)
    loaded = catalog.load_table(str(table.path))
    ids = [entry.snapshot_id for entry in loaded.metadata.snapshot_log]
    assert len(ids) == 4
    catalog.commit_table(loaded, (), (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [ids[2]]}),))
    assert [entry.snapshot_id for entry in catalog.load_table(str(table.path)).metadata.snapshot_log] == ids[3:]
