"""Turns rows of data files, which have the columns of the schema with which they were written, into rows with other columns. Pure.

A Paimon file only has the names of its columns. Its schema gives their ids, by which they are found under other names and types.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tiering.errors import LakewardError
from tiering.model.schema.changes import can_widen
from tiering.model.schema.field_ids import children, identity, with_ids_of
from tiering.model.schema.row_conversion import converted_rows

Misfit = Callable[[str, str], LakewardError]
"""Returns the error for values of a column that do not fit; its arguments are the column and the problem."""


@dataclass(frozen=True)
class FileColumns:
    """The columns of a table's files by the ids of their schemas. Can be pickled. Their field ids are those of the requested columns."""

    by_schema: Mapping[int, pa.Schema] = field(default_factory=dict)

    def names(self, schema_id: int, requested: Collection[pa.Field[Any]]) -> list[str]:
        """Returns the names that the requested columns have in files of a schema; columns that these do not have are left out."""
        identities = {identity(column) for column in requested}
        return [column.name for column in self.by_schema[schema_id] if identity(column) in identities]

    def converted(self, rows: pa.RecordBatch, schema_id: int, requested: pa.Schema, misfit: Misfit) -> pa.RecordBatch:
        """Returns rows of a file with the columns of `requested`; a column that the file does not have is NULL.

        Raises `misfit(column, problem)` if a value does not fit the type of its column.
        """
        stored = with_ids_of(rows.schema, self.by_schema[schema_id])
        by_identity = {identity(column): column for column in stored}
        arrays = []
        for column in requested:
            former = by_identity.get(identity(column))
            if former is None:
                arrays.append(pa.nulls(rows.num_rows, column.type))
                continue
            try:
                values = converted_rows(rows.select([former.name]), pa.schema([former]), pa.schema([column])).column(0)
            except pa.ArrowInvalid as error:
                problem = f"values of the type {former.type} that do not fit the source's type {column.type}"
                raise misfit(column.name, problem) from error
            arrays.append(values)
        return pa.RecordBatch.from_arrays(arrays, schema=requested)

    def present(self, rows: pa.RecordBatch, schema_id: int, present: pa.Schema, misfit: Misfit) -> pa.RecordBatch:
        """Returns rows of a file with the columns `present`. Columns of the file that the table does not have come first.

        Rows of a schema that is not in `by_schema` are returned unchanged.
        """
        if schema_id not in self.by_schema:
            return rows
        own = set(self.by_schema[schema_id].names)
        extra = [name for name in rows.schema.names if name not in own]
        values = self.converted(rows, schema_id, present, misfit)
        columns = [*(rows.column(name) for name in extra), *values.columns]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema([*(rows.schema.field(name) for name in extra), *present]))


def can_convert(former: pa.DataType | pa.Schema, current: pa.DataType | pa.Schema) -> bool:
    """Whether rows with the columns of a former schema can be rewritten with the columns of another one. Values of dropped fields do not
    count.
    """
    present = {identity(field): field.type for field in children(current)}
    return all(_can_convert(field.type, present[identity(field)]) for field in children(former) if identity(field) in present)


def _can_convert(former: pa.DataType, current: pa.DataType) -> bool:
    if former.num_fields == 0 or current.num_fields == 0:
        return bool(former == current) or can_widen(former, current)
    return bool(former.id == current.id) and can_convert(former, current)
