"""`CALL sys.reconcile_lake` over rows of which nothing tells that they are the table's: a former one of its name may have left them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from support.background import tick
from support.lakes import broken_lakes as broken
from support.lakes.broken_lakes import history_expired, tag_removed, tiered
from support.on_call import follow, in_lake
from support.worlds.lake_world import LakeWorld
from tiering import errors
from tiering.lake.base import FLUSS_COMMIT_USER
from tiering.lake.rules.hints import new_table_hint
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    yield lake_world
    lake_world.close()


def reconcile(world: LakeWorld, table: TableInfo, action: str) -> ReconcileLakeResult:
    return asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, action, caller="alice")))


def made_anew(world: LakeWorld, table: TableInfo) -> TableInfo:
    world.storage.drop_table(table.path)
    tick(world.coordinator)
    table = world.table("orders")
    world.append(table, 0, 40)
    tick(world.coordinator)
    return table


def test_a_former_lake_table_gets_a_name_that_is_free(world: LakeWorld) -> None:
    """Epochs come again with a store that is set back, and with them the first name. Seed 30001 of the stories on clean Iceberg tables."""
    source = tiered(world, False, False)
    broken.source_made_anew(source)
    source.tier()
    first = f"orders_former_{source.info.table_id}_1"
    world.by_hand.create(TablePath("sales", first), pa.schema([pa.field("id", pa.int64())]))
    (ran,) = follow(world.coordinator, source.info, in_lake(world))
    assert ran == f"ALTER TABLE lake.sales.orders RENAME TO {first}_2"
    assert source.tier().error is None


@pytest.mark.parametrize("is_readable", [True, False], ids=["which says so", "of which that is gone"])
def test_rows_that_another_service_wrote_for_the_former_table_belong_to_no_table(
    world: LakeWorld, tmp_path: Path, is_readable: bool
) -> None:
    table = world.table("orders")
    world.lake.ensure_table(table)
    offsets = tmp_path / "lake" / "sales" / "orders" / "metadata" / "a.offsets"
    if is_readable:
        offsets.parent.mkdir(parents=True, exist_ok=True)
        offsets.write_text(json.dumps({"version": 1, "table_id": table.table_id, "bucket_offsets": [10, 10]}))
    loaded = world.iceberg(table)
    columns = {"id": range(1_000, 1_020), "text": ["former"] * 20, "__bucket": [0] * 10 + [1] * 10, "__offset": [*range(10)] * 2}
    rows = pa.table({**columns, "__timestamp": [datetime.now(UTC)] * 20}, schema=loaded.schema().as_arrow())
    loaded.append(rows, snapshot_properties={"commit-user": FLUSS_COMMIT_USER, "fluss-offsets": str(offsets)})
    table = made_anew(world, table)
    assert isinstance(world.tier(table).error, errors.ForeignTiering)
    for action in ("adopt", "retier", "accept"):
        with pytest.raises(errors.CannotReconcile) as refused:
            reconcile(world, table, action)
        assert refused.value.hint == new_table_hint(table.path), action


@pytest.mark.parametrize("has_primary_key", [False, True], ids=["log", "primary key"])
def test_rows_in_partitions_that_the_table_does_not_have_yet_are_rows(world: LakeWorld, has_primary_key: bool) -> None:
    source = tiered(world, has_primary_key, True)
    world.storage.drop_table(source.info.path)
    tick(world.coordinator)
    source.create()
    tick(world.coordinator)
    tag_removed(source)
    history_expired(source)
    assert isinstance(source.tier().error, errors.UntrackedLakeTable)
    with pytest.raises(errors.CannotReconcile, match="a former table of this name"):
        reconcile(world, source.info, "retier")
