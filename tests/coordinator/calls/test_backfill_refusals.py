"""The refusals of `CALL sys.backfill_table`: each of them says why, and nothing is copied."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN, PAIMON, in_lakes
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering import errors
from tiering.access.grants import Grants
from tiering.access.identity import Authentication, Identity, acting_as
from tiering.cluster.log_writer import LogWriter
from tiering.coordinator.server.control import Control
from tiering.model.tables import TableInfo, TablePath
from tiering.procedures.backfill_table import BackfillTable, BackfillTableResult
from tiering.procedures.reconcile_lake import ReconcileLake

SOURCE = TablePath("archive", "orders")
ROWS = pa.table({"id": [-1], "text": ["old"]}, schema=SCHEMA)


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=getattr(request, "param", ICEBERG_CLEAN))
    yield lake_world
    lake_world.close()


def backfill(world: LakeWorld, table: TableInfo, source: str = str(SOURCE), **more: object) -> BackfillTableResult:
    call = BackfillTable(table.path, source, caller="alice", **more)  # type: ignore[arg-type]
    return asyncio.run(world.coordinator.control.perform(call))


def tiered(world: LakeWorld) -> TableInfo:
    table = world.table("orders")
    world.append(table, 0, 20)
    world.tier(table)
    return table


def source(world: LakeWorld, rows: pa.Table = ROWS) -> None:
    world.by_hand.create(SOURCE, rows.schema)
    world.by_hand.append(SOURCE, rows, {})


@in_lakes(ICEBERG, PAIMON)
def test_a_lake_table_with_system_columns(world: LakeWorld) -> None:
    table = tiered(world)
    source(world)
    with pytest.raises(errors.InvalidArgument, match=r"sales\.orders cannot be backfilled .* system columns"):
        backfill(world, table)


def test_a_primary_key_table_and_one_that_was_never_tiered(world: LakeWorld) -> None:
    source(world)
    with pytest.raises(errors.InvalidArgument, match="it has a primary key"):
        backfill(world, world.primary_key_table("planes"))
    with pytest.raises(errors.InvalidArgument, match="it has no lake table yet"):
        backfill(world, world.table("orders"))


def test_a_source_without_rows(world: LakeWorld) -> None:
    table = tiered(world)
    for name, why in ((str(SOURCE), "no such table"), (str(table.path), "the table itself")):
        with pytest.raises(errors.InvalidArgument, match=f"{name} has no rows to copy: .*{why}"):
            backfill(world, table, name)
    world.by_hand.create(SOURCE, SCHEMA)
    with pytest.raises(errors.InvalidArgument, match="it has no snapshot"):
        backfill(world, table)


def test_a_former_lake_table_with_records_that_the_log_brings_again(world: LakeWorld) -> None:
    table = tiered(world)
    world.by_hand.rename(table.path, "former")
    assert world.tier(table).error is not None
    with pytest.raises(errors.CannotReconcile, match="no round can build on the lake table"):
        backfill(world, table, "sales.former")
    asyncio.run(world.coordinator.control.perform(ReconcileLake(table.path, "retier", caller="alice")))
    world.begin(table).end()
    with pytest.raises(errors.InvalidArgument, match="has the offsets 0 to 9 of bucket 0, which are or will be in the lake table"):
        backfill(world, table, "sales.former")


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (pa.table({"id": ["1"], "text": ["x"]}), "the column 'id' has the type .*string, and in sales.orders int64"),
        (pa.table({"ID": [1], "text": ["x"]}), "the column 'ID' is named 'id' in sales.orders"),
        (pa.table({"id": [1], "text": ["x"], "note": ["y"]}), "sales.orders lacks its column 'note'"),
    ],
)
def test_columns_that_do_not_fit(world: LakeWorld, rows: pa.Table, why: str) -> None:
    table = tiered(world)
    source(world, rows)
    with pytest.raises(errors.InvalidArgument, match=why):
        backfill(world, table)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("id <", "cannot be read as SQL"),
        ("upper(text) = 'X'", r"'UPPER\(text\)' is not allowed"),
        ("id IN (SELECT 1)", "is not allowed"),
        ("read_text('/etc/passwd') IS NULL", "is not allowed"),
        (r"text LIKE 'a\\_b'", "LIKE with a backslash"),
        ("price > 1", r"'price' is not a column of sales\.orders"),
        ("orders.id = 1", r"'orders\.id' is not a column of sales\.orders"),
        ("id = 'one'", "Could not convert string 'one' to INT64"),
    ],
)
def test_a_condition_with_more_than_comparisons_of_columns_with_literals(world: LakeWorld, condition: str, why: str) -> None:
    table = tiered(world)
    source(world)
    with pytest.raises(errors.InvalidArgument, match=why):
        backfill(world, table, condition=condition)


STRICT = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int8())])


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (pa.table({"id": [1], "n": pa.array([1000], pa.int32())}), errors.SchemaDrift),
        (pa.table({"id": pa.array([None], pa.int64()), "n": pa.array([1], pa.int32())}), errors.InvalidData),
        (pa.table({"n": pa.array([1], pa.int32())}), errors.InvalidArgument),
    ],
    ids=["a number that is too large", "NULL in a column that is NOT NULL", "without such a column"],
)
def test_rows_that_do_not_fit_leave_no_file(world: LakeWorld, rows: pa.Table, error: type[errors.LakewardError]) -> None:
    """The lake has no 8-bit integers, so each value is checked whether it fits into 8 bits."""
    table = world.table("strict", schema=STRICT)
    LogWriter(world.storage, table.path, "one").append(pa.table({"id": [1], "n": pa.array([1], pa.int8())}, schema=STRICT))
    world.tier_all()
    source(world, rows)
    folder = world.by_hand.data_files(table.path)[0].parent
    files = sorted(folder.rglob("*.parquet"))
    for dry_run in (True, False):
        with pytest.raises(error):
            backfill(world, table, dry_run=dry_run)
    assert sorted(folder.rglob("*.parquet")) == files


POLICIES = """
permit (principal, action in Action::"operate", resource == Table::"sales.orders");
permit (principal == User::"olga", action in Action::"read", resource == Table::"archive.orders");
"""


def test_a_caller_without_select_on_the_source(world: LakeWorld, tmp_path: Path) -> None:
    table = tiered(world)
    source(world)
    (tmp_path / "policy.cedar").write_text(POLICIES)
    world.coordinator.control = Control(replace(world.coordinator.call_parts, grants=Grants(tmp_path / "policy.cedar")))
    with acting_as(Identity("ana", Authentication.TOKEN)), pytest.raises(errors.AccessDenied, match=r"ana lacks SELECT on archive\.orders"):
        backfill(world, table)
    with acting_as(Identity("olga", Authentication.TOKEN)):
        assert backfill(world, table).rows_copied == 1
