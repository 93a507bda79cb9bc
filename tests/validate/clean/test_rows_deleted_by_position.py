"""Clean Iceberg log tables of which a user deleted rows by position, also after `retier` wrote the last ones again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import ManifestContent

from support.lake_kinds.kinds import ICEBERG_CLEAN
from support.lakes.foreign.files import delete_at
from support.worlds.lake_world import LakeWorld
from support.worlds.validated import check, faults, local
from tiering.model.tables import TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake
from tiering.validate.clean_checks import living_runs


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=ICEBERG_CLEAN)
    yield lake_world
    lake_world.close()


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """Two rounds of 10 offsets a bucket."""
    orders = world.table("orders")
    for start in (0, 20):
        world.append(orders, start, 20)
        assert world.tier(orders).error is None
    return orders


def delete(world: LakeWorld, table: TableInfo, positions: range) -> None:
    """Rows of the second file of bucket 0 die."""
    loaded = world.iceberg(table)
    head = loaded.current_snapshot()
    assert head is not None
    manifests = [manifest for manifest in head.manifests(loaded.io) if manifest.content is ManifestContent.DATA]
    entries = [entry.data_file for manifest in manifests for entry in manifest.fetch_manifest_entry(loaded.io)]
    in_order = sorted(entries, key=lambda file: (repr(file.partition), -file.record_count))  # as `delete_at` counts them
    files = [local(file.file_path) for file in in_order]
    footers = [pq.read_metadata(file).metadata for file in files]
    [number] = [at for at, footer in enumerate(footers) if (footer[b"lakeward.bucket"], footer[b"lakeward.offsets"]) == (b"0", b"10-20")]
    delete_at(world, table, positions, like=number)


def retier(world: LakeWorld, table: TableInfo) -> dict[str, int]:
    result = asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, "retier", caller="alice")))
    world.due()
    assert world.begin(table).end().error is None
    return dict(result.offsets)


@pytest.mark.parametrize("positions", [range(8, 10), range(10)], ids=["some", "all"])
def test_rows_that_are_written_again_in_the_place_of_deleted_ones_are_no_fault(
    world: LakeWorld, table: TableInfo, positions: range
) -> None:
    delete(world, table, positions)
    assert ("offsets", "0", f"bucket 0: offset {10 + positions[0]} is missing") in faults(check(world, table))
    assert retier(world, table) == {"0": 10 + positions[0], "1": 20}
    assert not faults(check(world, table))
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == list(range(40))


def test_a_row_too_few_behind_them_is_still_named(world: LakeWorld, table: TableInfo) -> None:
    delete(world, table, range(8, 10))
    retier(world, table)
    delete(world, table, range(3, 4))
    named = faults(check(world, table))
    assert ("cover", "0", "bucket 0: no file has the offsets 13 to 13") in named
    assert ("offsets", "0", "bucket 0: offset 13 is missing") in named


def test_positions_are_those_of_rows_not_of_offsets() -> None:
    assert living_runs([(0, 3), (10, 14)], []) == ((0, 3), (10, 14))
    assert living_runs([(0, 3), (10, 14)], [6, 0, 3]) == ((1, 3), (11, 13))
    assert living_runs([(0, 3), (10, 14)], range(7)) == ()
