"""`CREATE OR REPLACE TABLE` of a primary-key table in the lake, by another engine and without a column: no row is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    RemoveSnapshotRefUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
)
from pyiceberg.types import NestedField

from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN
from support.lakes.broken_lakes import Source, tiered
from support.on_call import call, follow, in_lake, next_action
from support.worlds.lake_world import LakeWorld
from tiering import errors
from tiering.model.rounds import RoundState

DROPPED = "text"
pytestmark = pytest.mark.in_turn("world")
IN_PARTITIONS = pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
WITH_ROWS = pytest.mark.parametrize("as_select", [False, True], ids=["empty", "as select"])


@pytest.fixture(params=[ICEBERG, ICEBERG_CLEAN], ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=request.param)
    yield lake_world
    lake_world.close()


def replace_table(source: Source, *, as_select: bool, keeps_spec: bool) -> None:
    """Does the same as Spark's `CREATE OR REPLACE TABLE ... [PARTITIONED BY ...] [AS SELECT ...]` to an Iceberg table without the column:
    uuid, tag, snapshots and former schemas stay. All columns are nullable, and the main branch is gone, or has no parent."""
    table = source.world.iceberg(source.info)
    rows = table.scan().to_arrow().drop_columns([DROPPED])
    fields = [NestedField(field.field_id, field.name, field.field_type, required=False) for field in table.schema().fields]
    schema = Schema(*(field for field in fields if field.name != DROPPED), schema_id=len(table.metadata.schemas))
    spec = PartitionSpec(spec_id=len(table.metadata.partition_specs))
    unpartitioned = () if keeps_spec else (AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate(spec_id=-1))
    changed = (AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate(schema_id=-1), *unpartitioned)
    table.catalog.commit_table(table, (), (*changed, RemoveSnapshotRefUpdate(ref_name="main")))
    if as_select:
        source.world.iceberg(source.info).append(rows)


def rename_by_hand(source: Source) -> None:
    """Where rows name no partition they may be a dropped one's: the hint says so, and a user does what it says."""
    world, path = source.world, source.info.path
    [status] = world.coordinator.view().table_statuses()
    assert status.error_hint is not None
    assert (
        f"Rename or drop the lake table {path} in the lake's catalog, then CALL sys.reconcile_lake('{path}', 'retier')" in status.error_hint
    )
    assert "of dropped partitions" in status.error_hint
    world.by_hand.rename(path, "former")
    call(world.coordinator, f"CALL fluss.sys.reconcile_lake('{path}', 'retier')")


@IN_PARTITIONS
@WITH_ROWS
@pytest.mark.parametrize("keeps_spec", [False, True], ids=["unpartitioned", "same spec"])
@pytest.mark.parametrize("is_log_cut", [False, True], ids=["log whole", "log cut"])
def test_it_is_refused_until_the_named_statements_were_run_and_then_every_key_is_there_once(
    world: LakeWorld, partitioned: bool, as_select: bool, keeps_spec: bool, is_log_cut: bool
) -> None:
    source = tiered(world, True, partitioned)
    if is_log_cut:
        assert source.tier().state is RoundState.SUCCEEDED
        source.cut_log()
        source.write()
    replace_table(source, as_select=as_select, keeps_spec=keeps_spec)
    snapshots = world.by_hand.snapshots(source.info.path)
    assert isinstance(source.tier().error, errors.PermanentTieringError)
    assert world.by_hand.snapshots(source.info.path) == snapshots, "nothing is written to it"
    statements = follow(world.coordinator, source.info, in_lake(world))
    if as_select and partitioned and not keeps_spec:
        rename_by_hand(source)
    else:
        assert statements
    for _ in range(2):
        source.tier()
        source.write()
    assert source.tier().state is RoundState.SUCCEEDED
    assert world.record(source.info).error is None
    assert source.in_lake() == sorted(source.rows.items())


@WITH_ROWS
@pytest.mark.parametrize("keeps_spec", [False, True], ids=["unpartitioned", "same spec"])
def test_rows_of_a_dropped_partition_are_left_out_by_no_named_statement(world: LakeWorld, as_select: bool, keeps_spec: bool) -> None:
    source = tiered(world, True, True)
    assert source.tier().state is RoundState.SUCCEEDED
    world.storage.drop_partition(source.info.path, "eu")
    source.write()
    assert source.tier().state is RoundState.SUCCEEDED
    replace_table(source, as_select=as_select, keeps_spec=keeps_spec)
    source.write()
    assert isinstance(source.tier().error, errors.PermanentTieringError)
    statements = follow(world.coordinator, source.info, in_lake(world))
    assert not [statement for statement in statements if "RENAME TO" in statement]
    assert next_action(world.coordinator, source.info) is None
    [status] = world.coordinator.view().table_statuses()
    assert "of dropped partitions" in (status.error_hint or "")
