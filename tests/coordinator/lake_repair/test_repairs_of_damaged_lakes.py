"""Repairs of lake tables of which files are damaged, or that no statement about a column mends: what is said can be done, and helps.

First met by the stories (`python -m faults.stories`), seeds 0, 3 and 7 of iceberg-system-columns and 28 of paimon-system-columns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.background import tick
from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, LAKE_KINDS, PAIMON, PAIMON_CLEAN
from support.lake_kinds.repairs import RENAME
from support.lakes import broken_lakes as broken
from support.lakes.broken_lakes import tiered
from support.on_call import follow, in_lake
from support.worlds.lake_world import LakeWorld
from tiering import errors
from tiering.model.rounds import RoundState
from tiering.model.tables import TableInfo
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

pytestmark = pytest.mark.in_turn("world")


@pytest.fixture(params=LAKE_KINDS, ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    world = LakeWorld(tmp_path, kind=request.param)
    yield world
    world.close()


def retier(world: LakeWorld, table: TableInfo) -> ReconcileLakeResult:
    return asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, "retier", caller="ann")))


def test_a_repair_that_meets_a_damaged_data_file_names_it_and_goes_on_once_it_is_restored(world: LakeWorld) -> None:
    source = tiered(world, False, False)
    broken.rolled_back(source)
    file = world.by_hand.data_files(source.info.path)[0]
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(errors.DataCorrupt, match=file.name) as caught:
        retier(world, source.info)
    assert "Restore it from a backup of the warehouse" in caught.value.hint
    file.write_bytes(whole)
    assert retier(world, source.info).outcome == "reconciled"
    assert source.tier().state is RoundState.SUCCEEDED
    assert source.in_lake() == sorted(source.rows.items())


@pytest.mark.parametrize("world", [PAIMON, PAIMON_CLEAN], indirect=True)
@pytest.mark.parametrize("restored", [True, False])
def test_a_paimon_table_that_lost_its_only_snapshot_is_not_taken_for_an_empty_one(world: LakeWorld, tmp_path: Path, restored: bool) -> None:
    source = tiered(world, False, False)
    world.by_hand.expire(source.info.path)
    [snapshot] = (tmp_path / "lake").rglob("orders/snapshot/snapshot-*")
    content = snapshot.read_bytes()
    snapshot.unlink()
    error = source.tier().error
    assert error is not None
    assert (error.error_class, error.retryable) == ("LakeUnavailable", True)
    assert f"Restore the file {snapshot.name} from a backup of the warehouse" in error.hint
    if restored:
        snapshot.write_bytes(content)
    else:
        world.by_hand.rename(source.info.path, "former")
        assert source.tier().error is not None
        assert follow(world.coordinator, source.info, in_lake(world)) == ["CALL fluss.sys.reconcile_lake('sales.orders', 'retier')"]
    assert source.tier().state is RoundState.SUCCEEDED
    assert source.in_lake() == sorted(source.rows.items())


@pytest.mark.parametrize("world", [ICEBERG, ICEBERG_CLEAN], indirect=True)
@pytest.mark.parametrize("stays", [True, False], ids=["nullable", "gone"])
def test_a_lake_table_that_was_made_for_another_key_gets_another_name(world: LakeWorld, stays: bool) -> None:
    """Iceberg neither drops a column of the key nor makes it nullable, so a statement for that would not help."""
    keyed = pa.schema([pa.field("key", pa.int64(), nullable=False), pa.field("id", pa.int64())])
    former = world.primary_key_table("orders", 1, keyed, ("key",))
    world.lake.ensure_table(former)
    world.storage.drop_table(former.path)
    fields = [pa.field("id", pa.int64()), *([pa.field("key", pa.int64())] if stays else [])]
    table = world.table("orders", 1, schema=pa.schema(fields))
    tick(world.coordinator)
    world.storage.append(table.path, pa.table({name: [1] for name in table.schema.names}, schema=table.schema), "w", 0)
    error = world.tier(table).error
    assert error is not None
    assert error.error_class == "SchemaDrift"
    [statement] = follow(world.coordinator, table, in_lake(world))
    assert statement.startswith(RENAME)
    assert world.tier(table).state is RoundState.SUCCEEDED
    assert world.by_hand.rows(table.path)["id"].to_pylist() == [1]
