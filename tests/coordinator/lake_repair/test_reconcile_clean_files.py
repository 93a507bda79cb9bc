"""`CALL sys.reconcile_lake` of clean log tables in which files of other tables or partitions stand: footers tell whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.background import tick
from support.lake_kinds.kinds import ICEBERG_CLEAN, PAIMON_CLEAN
from support.worlds.lake_world import LakeWorld
from tiering import errors
from tiering.cluster.log_writer import LogWriter
from tiering.model.tables import TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

COLUMNS = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])


@pytest.fixture(params=[ICEBERG_CLEAN, PAIMON_CLEAN], ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=request.param)
    yield lake_world
    lake_world.close()


def table(world: LakeWorld, name: str) -> TableInfo:
    """Ten rows of each of two regions, in one bucket each."""
    visits = world.table(name, 1, ("region",), COLUMNS)
    for region in ("eu", "us"):
        append(world, visits, region, 10)
    world.tier_all()
    return visits


def append(world: LakeWorld, visits: TableInfo, region: str, count: int) -> None:
    rows = pa.table({"region": [region] * count, "id": range(count)}, schema=COLUMNS)
    LogWriter(world.storage, visits.path, f"{visits.path}-{region}-{count}").append(rows)


def file_of(world: LakeWorld, visits: TableInfo, region: str) -> str:
    [file] = [file for file in world.by_hand.data_files(visits.path) if f"region={region}" in str(file)]
    return file.name


def retier(world: LakeWorld, visits: TableInfo) -> ReconcileLakeResult:
    return asyncio.run(world.coordinator.control.perform(ReconcileLake(visits.path, "retier", caller="alice")))


def test_a_file_of_another_table_or_partition_refuses_a_retier(world: LakeWorld) -> None:
    visits, others = table(world, "visits"), table(world, "others")
    us = file_of(world, visits, "us")
    world.by_hand.put_in(others.path, visits.path, us, file_of(world, others, "us"))
    with pytest.raises(errors.CannotReconcile, match=rf"was written for the table {visits.table_id}/{world.view(visits).table_uuid}"):
        retier(world, others)
    world.by_hand.put_in(visits.path, visits.path, us, file_of(world, visits, "eu"))
    with pytest.raises(errors.CannotReconcile, match="is in partition eu, but was written for partition us"):
        retier(world, visits)


def test_a_refused_retier_names_no_action_that_finds_nothing_to_do(world: LakeWorld) -> None:
    """The marker passes every check, so `accept` and `adopt` would answer that they are not needed."""
    visits, others = table(world, "visits"), table(world, "others")
    world.by_hand.put_in(others.path, visits.path, file_of(world, visits, "us"), file_of(world, others, "us"))
    with pytest.raises(errors.CannotReconcile) as refusal:
        retier(world, others)
    assert "is possible" not in (refusal.value.hint or "")
    assert "lake table" in (refusal.value.hint or "")
    accepted = asyncio.run(world.coordinator.control.perform(ReconcileLake(others.path, "accept", caller="alice", dry_run=True)))
    assert accepted.outcome == "not_needed"


def test_files_of_a_former_partition_of_the_same_name_are_not_counted(world: LakeWorld) -> None:
    visits = table(world, "visits")
    world.storage.drop_partition(visits.path, "eu")
    tick(world.coordinator)
    append(world, visits, "eu", 4)
    world.tier_all()
    result = retier(world, visits)
    assert (result.outcome, sorted(result.offsets.values())) == ("not_needed", [4, 10])
