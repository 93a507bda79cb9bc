"""Reads and creates a Paimon table's schema files. pypaimon reads and writes their types."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pypaimon.common.json_util import JSON
from pypaimon.schema.data_types import AtomicInteger, PyarrowFieldParser, is_system_field_id, reassign_field_id
from pypaimon.schema.schema import Schema
from pypaimon.schema.table_schema import TableSchema

from tiering.lake.layouts import Layout, layout_of
from tiering.lake.paimon.schema.layout import TableLayout
from tiering.lake.paimon.storage.base import SCHEMA, TableFolder


@dataclass(frozen=True)
class StoredSchema:
    """One version of a table's columns. `names` has the column names of each former version."""

    schema_id: int
    columns: pa.Schema
    field_ids: dict[str, int]
    table: TableSchema
    names: tuple[frozenset[str], ...] = ()

    @property
    def layout(self) -> Layout:
        return layout_of(self.columns.names, {name for names in self.names for name in names})

    @property
    def options(self) -> dict[str, str]:
        return dict(self.table.options)


def read_schema(folder: TableFolder, schema_id: int | None = None) -> StoredSchema | None:
    """Returns the newest schema, or the one with an id; None if it does not exist. Raises the errors of pypaimon for a damaged file."""
    numbers = folder.numbers(SCHEMA)
    if not numbers or (schema_id is not None and schema_id not in numbers):
        return None
    number = numbers[-1] if schema_id is None else schema_id
    documents = {version: folder.read(f"{SCHEMA}/schema-{version}") or b"{}" for version in numbers if version <= number}
    names = [frozenset(field["name"] for field in json.loads(text).get("fields", [])) for text in documents.values()]
    table = TableSchema.from_json(documents[number].decode())
    ids = {field.name: int(field.id) for field in table.fields}
    return StoredSchema(number, PyarrowFieldParser.from_paimon_schema(table.fields), ids, table, tuple(names[:-1]))


def first_schema(layout: TableLayout, options: dict[str, str]) -> bytes:
    """Returns the content of `schema-0` of a new table."""
    schema = Schema.from_pyarrow_schema(layout.columns, list(layout.partition_keys), list(layout.primary_key), options)
    return _text(TableSchema.from_schema(0, schema))


def with_columns(schema: StoredSchema, columns: Sequence[pa.Field[Any]], before: str) -> bytes:
    """Returns the content of the schema file that follows `schema`: with `columns`, nullable, in front of the column `before`, or last if
    that does not exist.

    New field ids follow the highest id that was ever used, nested fields included.
    """
    table = schema.table
    ids = AtomicInteger(max(table.highest_field_id, *(field.id for field in table.fields if not is_system_field_id(field.id))))
    new = []
    for field in PyarrowFieldParser.to_paimon_schema(pa.schema(columns)):
        field.id = ids.increment_and_get()
        field.type = reassign_field_id(field.type, ids)
        new.append(field)
    place = next((position for position, field in enumerate(table.fields) if field.name == before), len(table.fields))
    fields = [*table.fields[:place], *new, *table.fields[place:]]
    wider = TableSchema(
        TableSchema.CURRENT_VERSION,
        schema.schema_id + 1,
        fields,
        ids.get(),
        table.partition_keys,
        table.primary_keys,
        table.options,
        table.comment,
        int(time.time() * 1_000),
    )
    return _text(wider)


def _text(table: TableSchema) -> bytes:
    document = json.loads(str(JSON.to_json(table)))
    # Paimon's Java reads a null comment as the text "null", and Fluss then treats the table as another one.
    return json.dumps({name: value for name, value in document.items() if value is not None}, indent=2).encode()
