"""The lake of a Fluss cluster by a REST catalog, which is named in Fluss's words: Iceberg's own handlers answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.lakes.lake_kit import LakeKit, bucket
from support.lakes.lake_proof import assert_every_offset_once, marker_of
from support.running.rest_catalog import rest_catalog
from tiering.errors import CommitOutcomeUnknown
from tiering.lake.fluss.options import lake_of_fluss
from tiering.lake.iceberg.lake import IcebergLake
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class World:
    """A lake behind a REST catalog, and rounds by hand."""

    kit: LakeKit
    lake: IcebergLake
    properties: dict[str, str]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """What Flink's tiering job would be started with."""
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
