"""Reads and creates a Paimon table's schema files. pypaimon reads and writes their types."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pypaimon.common.json_util import JSON
from pypaimon.schema.data_types import PyarrowFieldParser, is_system_field_id
from pypaimon.schema.schema import Schema
from pypaimon.schema.table_schema import TableSchema

from tiering.lake.layouts import Layout, layout_of
from tiering.lake.paimon.schema.layout import TableLayout
from tiering.lake.paimon.schema.numbered_columns import PaimonFields, numbered_columns, renumbered, with_comments
from tiering.lake.paimon.storage.base import SCHEMA, TableFolder
from tiering.lake.schema.column_ids import COLUMN_IDS, ColumnIds, FollowedColumns, same_fields
from tiering.model.schema.field_ids import has_field_ids
from tiering.model.tables import SYSTEM_COLUMNS, TableInfo


@dataclass(frozen=True)
class StoredSchema:
    """One version of a table's columns. `versions` has the content of the schema files up to this one, by their ids."""

    schema_id: int
    columns: pa.Schema
    field_ids: dict[str, int]
    table: TableSchema
    versions: Mapping[int, bytes] = field(default_factory=dict)

    @cached_property
    def former_names(self) -> frozenset[str]:
        """The names of all columns of earlier versions."""
        texts = (text for number, text in self.versions.items() if number < self.schema_id)
        return frozenset(column["name"] for text in texts for column in json.loads(text).get("fields", []))

    @property
    def layout(self) -> Layout:
        return layout_of(self.columns.names, self.former_names)

    @property
    def options(self) -> dict[str, str]:
        return dict(self.table.options)

    @cached_property
    def numbered(self) -> pa.Schema:
        """The columns without the system columns, with the ids of all fields (`numbered_columns`)."""
        system = SYSTEM_COLUMNS if self.layout.has_row_offsets else ()
        return numbered_columns([column for column in self.table.fields if column.name not in system])

    @cached_property
    def numbered_all(self) -> pa.Schema:
        """All columns, with the ids of all fields."""
        return numbered_columns(self.table.fields)

    @cached_property
    def column_ids(self) -> ColumnIds | None:
        """The fields of the source that the columns hold; None if the table does not record them. Raises SchemaDrift."""
        text = self.table.options.get(COLUMN_IDS)
        return None if text is None else ColumnIds.parse(text)

    @property
    def highest_id(self) -> int:
        """The highest id of a field that was ever used, nested fields included."""
        return max(int(self.table.highest_field_id), *(int(column.id) for column in self.table.fields if not is_system_field_id(column.id)))

    def version(self, schema_id: int) -> StoredSchema | None:
        """Returns this schema or an earlier one; None if it does not exist. Raises the errors of pypaimon for a damaged file."""
        if schema_id not in self._parsed_versions and (text := self.versions.get(schema_id)) is not None:
            self._parsed_versions[schema_id] = _parsed(schema_id, text, self.versions)
        return self._parsed_versions.get(schema_id)

    @cached_property
    def _parsed_versions(self) -> dict[int, StoredSchema]:
        """The versions that `version` has parsed: readers ask for the schema of each file."""
        return {self.schema_id: self}


def read_schema(folder: TableFolder) -> StoredSchema | None:
    """Returns the newest schema; None if there is none. Raises the errors of pypaimon for a damaged file."""
    numbers = folder.numbers(SCHEMA)
    if not numbers:
        return None
    contents = {version: folder.read(f"{SCHEMA}/schema-{version}") for version in numbers}
    versions = {version: content for version, content in contents.items() if content is not None}
    return _parsed(numbers[-1], versions[numbers[-1]], versions)


def _parsed(schema_id: int, text: bytes, versions: Mapping[int, bytes]) -> StoredSchema:
    table = TableSchema.from_json(text.decode())
    ids = {column.name: int(column.id) for column in table.fields}
    return StoredSchema(schema_id, PyarrowFieldParser.from_paimon_schema(table.fields), ids, table, versions)


def first_schema(table: TableInfo, layout: TableLayout, options: dict[str, str]) -> bytes:
    """Returns the content of `schema-0` of a new table. It records the ids of the source's fields if these have ids."""
    first = TableSchema.from_schema(
        0, Schema.from_pyarrow_schema(layout.columns, list(layout.partition_keys), list(layout.primary_key), options)
    )
    if has_field_ids(table.schema):
        own = first.fields[: len(table.schema)]
        with_comments(own, table.schema)
        first.options[COLUMN_IDS] = same_fields(table, numbered_columns(own)).text()
    return _text(first)


def next_schema(table: TableInfo, schema: StoredSchema, followed: FollowedColumns) -> bytes:
    """Returns the content of the schema file that follows `schema`: the columns of `followed`, then the system columns if it has them.

    Ids of new fields follow the highest id that was ever used, nested fields included.
    """
    fields = PaimonFields(schema.table.fields, schema.highest_id)
    own = fields.of(followed.columns)
    names = set(schema.numbered.names)
    system = [column for column in schema.table.fields if column.name not in names]
    options = dict(schema.table.options)
    if followed.pairs:
        ids = renumbered(followed.columns, numbered_columns(own))
        pairs = tuple((source_id, ids[lake_id]) for source_id, lake_id in followed.pairs)
        recorded = ColumnIds(schema.schema_id + 1, pairs, table.schema_id, followed.proof_names, table.table_id)
        options[COLUMN_IDS] = recorded.text()
    following = TableSchema(
        TableSchema.CURRENT_VERSION,
        schema.schema_id + 1,
        [*own, *system],
        fields.highest_id,
        schema.table.partition_keys,
        schema.table.primary_keys,
        options,
        schema.table.comment,
        int(time.time() * 1_000),
    )
    return _text(following)


def _text(table: TableSchema) -> bytes:
    document = json.loads(str(JSON.to_json(table)))
    # Paimon's Java reads a null comment as the text "null", and Fluss then treats the table as another one.
    return json.dumps({name: value for name, value in document.items() if value is not None}, indent=2).encode()
