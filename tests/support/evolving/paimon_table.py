"""A Paimon table whose source's columns change between rounds, and its rows as every reader of this project and pypaimon see them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa

from support.lakes.paimon_kit import B0, KeyedRounds, PaimonKit
from tiering.lake.base import LakeView
from tiering.lake.paimon.reading.row_scan import bucket_readers, row_readers
from tiering.model.schema.changes import SchemaChange, changed_schema
from tiering.model.schema.field_ids import children, with_field_ids
from tiering.model.schema.row_conversion import converted_rows
from tiering.model.tables import ChangeType, TableType

CLEAN = {"table.datalake.layout": "clean"}
Row = dict[str, Any]


class EvolvingTable:
    """A table of one bucket, and the rows that it should have (`expected`)."""

    def __init__(self, kit: PaimonKit, columns: pa.Schema, *, is_keyed: bool = False, **properties: str) -> None:
        kind = TableType.PRIMARY_KEY if is_keyed else TableType.LOG
        key = ("id",) if is_keyed else ()
        table = kit.log_table(with_field_ids(columns), table_type=kind, primary_key=key, bucket_count=1, properties=properties, schema_id=1)
        self.kit, self.table = kit, table
        self._parts: list[tuple[pa.Schema, pa.RecordBatch]] = []
        self._numbers = itertools.count(1)

    def change(self, *changes: SchemaChange) -> None:
        """Changes the columns of the source."""
        schema = changed_schema(self.table.schema, changes, key_columns={"id"})
        self.table = replace(self.table, schema=schema, schema_id=self.table.schema_id + 1)

    def add(self, *rows: Row) -> None:
        """Tiers rows with the present columns in a round of their own. In a keyed table a later row of a key replaces the earlier one."""
        number = next(self._numbers)
        if self.table.primary_key:
            KeyedRounds(self.kit, self.table).tier(f"r{number}", [(ChangeType.INSERT, row) for row in rows])
        else:
            columns = {name: [row.get(name) for row in rows] for name in self.table.schema.names}
            self.kit.prepare(self.table, f"r{number}", columns).commit()
        self._parts.append((self.table.schema, pa.RecordBatch.from_pylist(list(rows), schema=self.table.schema)))

    @property
    def expected(self) -> list[Row]:
        rows = [row for schema, batch in self._parts for row in converted_rows(batch, schema, self.table.schema).to_pylist()]
        return _in_order({row["id"]: row for row in rows}.values())

    @property
    def view(self) -> LakeView:
        return self.kit.view(self.table)

    def by_pypaimon(self) -> list[Row]:
        """The rows with the fields that the source has; the lake follows the source already."""
        kind = pa.struct(list(self.table.schema))
        rows = [_only(row, kind) for row in self.kit.read(self.table).to_pylist()]
        return _in_order(rows)

    def by_readers(self, snapshot_id: int | None = None) -> list[Row]:
        """The rows of the readers on executors, with the source's present columns."""
        view, names = self.view, self.table.schema.names
        at = cast(int, view.head) if snapshot_id is None else snapshot_id
        if self.table.primary_key:
            readers: Sequence[Any] = [reader for rows in bucket_readers(self.table, view, at, {B0: None}) for reader in rows.readers]
        else:
            readers = row_readers(self.table, view, at)
        rows = [row for reader in readers for batch in reader.read(names) for row in batch.to_pylist()]
        return _in_order(rows)


def _in_order(rows: Any) -> list[Row]:
    return sorted(rows, key=lambda row: row["id"])


def _only(value: Any, kind: pa.DataType) -> Any:
    """Returns a value without the fields that its type does not have."""
    if value is None:
        return None
    inner = [field.type for field in children(kind)]
    if isinstance(kind, pa.StructType):
        return {field.name: _only(value[field.name], field.type) for field in children(kind)}
    if isinstance(kind, pa.MapType):
        return [(_only(key, inner[0]), _only(item, inner[1])) for key, item in value]
    return [_only(element, inner[0]) for element in value] if inner else value
