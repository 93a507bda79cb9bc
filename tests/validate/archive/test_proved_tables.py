"""Proofs of tables with a history: after upkeep, changes of columns, dropped partitions, adoptions and backfills, and of odd tables."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.lake_kinds.damages import FIRST, SECOND, merge_in_a_round, new_table, rewrite_in_upkeep_rounds, write_rows
from support.lake_kinds.kinds import ICEBERG_CLEAN, LAKE_KINDS, in_lakes
from support.proofs.prover import Prover
from support.worlds.lake_world import SCHEMA, LakeWorld
from tiering.model.schema.changes import AddColumn, ChangeType, DropColumn, RenameColumn
from tiering.model.tables import TableInfo, TablePath, TableType
from tiering.procedures.adopt_table import AdoptTable
from tiering.procedures.backfill_table import BackfillTable
from tiering.procedures.pause_tiering import PauseTiering
from tiering.procedures.resume_tiering import ResumeTiering
from tiering.validate.archive import verify
from tiering.validate.archive.sealing import sealed

BY_TYPE = pytest.mark.parametrize("table_type", TableType, ids=lambda table_type: table_type.value.lower())


def proved(prover: Prover, table: TableInfo, rows: int) -> dict[str, Any]:
    """Returns the proof of a table whose lake has these rows, after all readers counted them and `verify.py` accepted it."""
    document = prover.document(table)
    assert {reader["reader"]: reader["rows"] for reader in document["readers"] if reader["reader"] != "Spark"} == {
        reader["reader"]: rows for reader in document["readers"] if reader["reader"] != "Spark"
    }, document["readers"]
    status, printed = prover.verified(sealed(document, prover.key))
    assert status == 0, printed
    return document


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {scope["scope"]: scope["verdict"] for scope in document["scopes"]}


@in_lakes(*LAKE_KINDS)
@BY_TYPE
def test_rows_of_dropped_partitions_are_not_compared(world: LakeWorld, prover: Prover, table_type: TableType) -> None:
    table = new_table(world, table_type, "t")
    write_rows(world, table, FIRST, "row")
    world.tier_all()
    world.storage.drop_partition(table.path, "us")
    document = proved(prover, table, 2 * len(FIRST))
    assert verdicts(document) == {"eu/0": "equal", "eu/1": "equal"}
    assert document["verdict"] == "partly"
    assert verify.reason_of(document) is not None
    world.storage.drop_partition(table.path, "eu")
    document = proved(prover, table, 2 * len(FIRST))
    assert (verdicts(document), document["verdict"]) == ({}, "partly")
    assert verify.reason_of(document) is not None


@in_lakes(*LAKE_KINDS)
@BY_TYPE
@pytest.mark.parametrize("upkeep", [merge_in_a_round, rewrite_in_upkeep_rounds])
def test_a_table_after_upkeep_is_proved(world: LakeWorld, prover: Prover, table_type: TableType, upkeep: Any) -> None:
    tables = [new_table(world, table_type, name) for name in ("twin", "t")]
    for ids in (FIRST, SECOND) if table_type is TableType.PRIMARY_KEY else (FIRST,):
        for table in tables:
            write_rows(world, table, ids, "row")
        world.tier_all()
    upkeep(world, tables)
    table = tables[1]
    document = proved(prover, table, world.by_hand.rows(table.path).num_rows)
    assert set(verdicts(document).values()) == {"equal"}


@in_lakes(*LAKE_KINDS)
@BY_TYPE
def test_a_table_whose_columns_changed_is_proved(world: LakeWorld, prover: Prover, table_type: TableType) -> None:
    columns = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), *map(pa.field, ("text", "size", "old"), (pa.string(), pa.int32(), pa.string()))]
    )
    make, write = (world.table, world.storage.append) if table_type is TableType.LOG else (world.primary_key_table, world.storage.upsert)
    table = make("orders", 1, schema=columns)

    def send(number: int, table: TableInfo, row: dict[str, Any]) -> None:
        write(table.path, pa.RecordBatch.from_pylist([row], schema=table.schema), "sizes", number)

    send(0, table, {"id": 0, "text": "a", "size": 1, "old": "x"})
    world.tier(table)
    send(1, table, {"id": 1, "text": "b", "size": 2, "old": "y"})
    changes = [
        RenameColumn(("text",), "words"),
        ChangeType(("size",), pa.int64()),
        AddColumn(pa.field("z", pa.string())),
        DropColumn(("old",)),
    ]
    table = world.storage.alter_table(table.path, {}, changes)
    send(2, table, {"id": 2, "words": "c", "size": 2**40, "z": "z"})
    world.tier(table)
    assert verdicts(proved(prover, table, 3)) == {"0": "equal"}


@in_lakes(*LAKE_KINDS)
def test_a_table_without_rows_is_proved(world: LakeWorld, prover: Prover) -> None:
    table = world.primary_key_table("orders", 1)
    rows = pa.RecordBatch.from_pylist([dict.fromkeys(table.schema.names) | {"id": 1}], schema=table.schema)
    world.storage.upsert(table.path, rows, "w", 0)
    world.tier(table)
    world.storage.delete(table.path, rows.select(["id"]), "w", 1)
    world.tier(table)
    assert verdicts(proved(prover, table, 0)) == {"0": "equal"}


@in_lakes(ICEBERG_CLEAN)
def test_a_table_of_2000_columns_is_proved(world: LakeWorld, prover: Prover) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), *(pa.field(f"c{number}", pa.int32()) for number in range(1_999))])
    table = world.table("wide", 1, schema=columns)
    world.storage.append(table.path, pa.RecordBatch.from_pylist([{"id": 1, "c7": 7}, {"id": 2}], schema=columns), "w", 0)
    world.tier(table)
    assert verdicts(proved(prover, table, 2)) == {"0": "equal"}


def test_a_lake_in_a_folder_with_odd_characters_is_proved(prover: Prover, tmp_path: Path) -> None:
    folder = tmp_path / 'it\'s "my" [lake]* {a,b} \U0001f30a'
    folder.mkdir()
    with closing(LakeWorld(folder, kind=ICEBERG_CLEAN)) as world:
        table = world.table("orders")
        world.append(table, 0, 40)
        world.tier(table)
        archive = Prover(world, prover.key, prover.folder).archive(table)
        for options in ((), ("--files", str(folder / "lake"))):
            status, printed = prover.verified(archive, *options)
            assert status == 0, printed


@in_lakes(ICEBERG_CLEAN)
def test_a_table_with_sorted_files_is_proved(world: LakeWorld, prover: Prover) -> None:
    table = world.table("orders", datalake_sort="text DESC")
    world.append(table, 0, 40)
    world.tier(table)
    document = proved(prover, table, 40)
    assert document["verdict"] == "equal"


def test_a_backfilled_table_is_proved(world: LakeWorld, prover: Prover) -> None:
    table = world.table("orders")
    world.append(table, 0, 40)
    world.tier(table)
    archive = TablePath("archive", "orders")
    world.by_hand.create(archive, SCHEMA)
    world.by_hand.append(archive, pa.table({"id": range(-20, 0), "text": ["old"] * 20}, schema=SCHEMA), {})
    asyncio.run(world.coordinator.control.perform(BackfillTable(table.path, str(archive), caller="ann")))
    world.append(table, 40, 20)
    world.tier(table)
    document = proved(prover, table, 80)
    assert document["verdict"] == "equal", verify.reason_of(document)


def test_an_adopted_table_is_proved(world: LakeWorld, prover: Prover) -> None:
    table = world.table("orders")
    asyncio.run(world.coordinator.control.perform(PauseTiering(table.path, caller="ann")))
    world.append(table, 0, 20)
    world.append(table, 20, 20)
    catalog = world.iceberg_catalog()
    catalog.create_namespace_if_not_exists("sales")
    rows = pa.table({"id": range(20), "text": [f"row {number}" for number in range(20)]}, schema=SCHEMA)
    catalog.create_table("sales.orders", SCHEMA).append(rows)
    asyncio.run(world.coordinator.control.perform(AdoptTable(table.path, "sales.orders", {"0": 10, "1": 10}, caller="ann")))
    asyncio.run(world.coordinator.control.perform(ResumeTiering(table.path, caller="ann")))
    world.tier(table)
    document = proved(prover, table, 40)
    assert document["verdict"] == "equal", verify.reason_of(document)
