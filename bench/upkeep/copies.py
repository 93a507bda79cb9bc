"""A compacted copy of a lake table, written by the format's own library: the same rows in as few files as its layout allows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pypaimon import Schema
from upkeep.health import iceberg_table, paimon_catalog, paimon_table
from upkeep.world import AgingWorld

from tiering.model.tables import TablePath

TOP_LEVEL = 5
"""Highest level of a Paimon merge tree. Files of this level alone are read without a merge."""


def write_copy(world: AgingWorld, path: TablePath) -> TablePath:
    """Writes the copy beside the table; its path."""
    copy = TablePath(path.database_name, f"{path.table_name}_compacted")
    (_paimon_copy if world.kind.format == "paimon" else _iceberg_copy)(world, path, copy)
    return copy


def _iceberg_copy(world: AgingWorld, path: TablePath, copy: TablePath) -> None:
    catalog = world.iceberg_catalog()
    table = iceberg_table(catalog, path)
    compacted = catalog.create_table(
        str(copy), table.schema(), partition_spec=table.spec(), sort_order=table.sort_order(), properties=table.properties
    )
    rows = table.scan().to_arrow().sort_by("id")
    compacted.append(_in_columns(rows, compacted.schema().as_arrow()))


def _paimon_copy(world: AgingWorld, path: TablePath, copy: TablePath) -> None:
    """In one run of the highest level a bucket: pypaimon writes level 0, and the level is its word alone."""
    table = paimon_table(world, path)
    builder = table.new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).sort_by("id")
    stored = table.table_schema
    options = {name: value for name, value in stored.options.items() if name not in ("path", "changelog-producer")}
    schema = Schema(stored.fields, stored.partition_keys, stored.primary_keys, options, stored.comment)
    paimon_catalog(world).create_table(str(copy), schema, False)
    _write(paimon_table(world, copy), rows, TOP_LEVEL if stored.primary_keys else 0)


def _write(table: Any, rows: pa.Table, level: int) -> None:
    builder = table.new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow(rows)
    messages = write.prepare_commit()
    for file in (file for message in messages for file in message.new_files):
        file.level = level
    commit.commit(messages)
    write.close()
    commit.close()


def _in_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in the types and the nullability of the table's columns."""
    return pa.Table.from_arrays([rows[name].cast(schema.field(name).type) for name in schema.names], schema=schema)
