"""Files of a primary-key table that no round can look into: the look names the statement that rewrites them, and the table goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from support.lake_kinds.kinds import ICEBERG, ICEBERG_CLEAN
from support.on_call import next_action
from support.worlds.lake_world import PRIMARY_KEY_SCHEMA, LakeWorld
from tiering import errors
from tiering.model.tables import TableInfo

REWRITE = (
    "CALL lake.system.rewrite_data_files(table => 'sales.orders', options => "
    "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true', 'use-starting-sequence-number', 'false'))"
)
PARQUET = {"write.format.default": "parquet", "write.delete.format.default": "parquet"}
SET_PARQUET = f"ALTER TABLE lake.sales.orders SET TBLPROPERTIES ({', '.join(f'{name!r} = {value!r}' for name, value in PARQUET.items())})"


@pytest.fixture(params=[ICEBERG, ICEBERG_CLEAN], ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path, kind=request.param)
    yield lake_world
    lake_world.close()


def put(world: LakeWorld, table: TableInfo, start: int, count: int) -> None:
    rows = pa.table({"id": range(start, start + count), "text": [f"row {start}"] * count}, schema=PRIMARY_KEY_SCHEMA)
    world.storage.upsert(table.path, rows, f"writer-{start}", 0)


def tiered(world: LakeWorld) -> TableInfo:
    """One round is in the lake, and an update waits in the log."""
    table = world.primary_key_table("orders", 1)
    put(world, table, 0, 10)
    assert world.tier(table).error is None
    put(world, table, 5, 10)
    return table


def rewrite_with_a_former_spec(world: LakeWorld, table: TableInfo) -> None:
    """Rewrites the same rows into files of another partition spec, as a user does with `output-spec-id`."""
    loaded = world.iceberg(table)
    with loaded.update_spec() as update:
        update.add_field("text", IdentityTransform(), "extra")
    rows = loaded.scan().to_arrow()
    loaded.overwrite(rows)
    with loaded.update_spec() as update:
        update.remove_field("extra")


def name_as_orc(world: LakeWorld, table: TableInfo) -> None:
    """Makes a file look like ORC, which an engine writes if the table's property says so. The test does not read it."""
    loaded = world.iceberg(table)
    [task, *_] = loaded.scan().plan_files()
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=task.file.file_path.replace(".parquet", ".orc"),
        file_format=FileFormat.ORC,
        partition=Record(*(task.file.partition[index] for index in range(len(task.file.partition)))),
        record_count=1,
        file_size_in_bytes=1,
        equality_ids=None,
    )
    file.spec_id = task.file.spec_id
    with loaded.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)


def rewritten(world: LakeWorld, table: TableInfo) -> None:
    """Does the statement's work: all rows are in new Parquet files of the present spec."""
    loaded = world.iceberg(table)
    rows = loaded.scan().to_arrow()
    loaded.overwrite(rows)


def refused(world: LakeWorld, table: TableInfo) -> str:
    error = world.tier(table).error
    assert isinstance(error, errors.SchemaDrift)
    return f"{error.message} {error.hint}"


def test_files_of_a_former_partition_spec_are_rewritten(world: LakeWorld) -> None:
    table = tiered(world)
    rewrite_with_a_former_spec(world, table)
    text = refused(world, table)
    assert "former partition spec" in text
    assert REWRITE.replace("lake.system", "<lake catalog>.system") in text
    assert next_action(world.coordinator, table) == REWRITE
    rewritten(world, table)
    assert next_action(world.coordinator, table) is None
    assert world.tier(table).error is None
    assert sorted(world.by_hand.rows(table.path)["id"].to_pylist()) == list(range(15))


def test_a_file_in_another_format_is_rewritten_once_the_property_that_asks_for_it_is_gone(world: LakeWorld) -> None:
    table = tiered(world)
    with world.iceberg(table).transaction() as transaction:
        transaction.set_properties({"write.format.default": "orc"})
    name_as_orc(world, table)
    text = refused(world, table)
    assert "holds the ORC file" in text
    assert "First set write.format.default of the lake table to parquet" in text
    assert next_action(world.coordinator, table) == SET_PARQUET
    with world.iceberg(table).transaction() as transaction:
        transaction.set_properties(PARQUET)
    assert next_action(world.coordinator, table) == REWRITE
