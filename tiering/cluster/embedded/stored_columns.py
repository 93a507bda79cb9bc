"""Rows of files that were written with former columns of their table, as rows of its present columns. Pure.

A file has the first columns of one version of the table's columns, which its row in the metadata names by the schema id. A writer that does
not know the last columns of a version leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

import pyarrow as pa

from tiering.errors import SourceChanged
from tiering.model.schema.row_conversion import converted_rows
from tiering.model.tables import TableInfo

Versions = Mapping[int, pa.Schema]
"""Columns of a table by schema id."""


ColumnsAt = Callable[[int], pa.Schema]
"""Returns the columns that a table had with a schema id."""


class StoredFile(Protocol):
    """A segment or a KV snapshot."""

    @property
    def schema_id(self) -> int: ...

    @property
    def columns(self) -> int:
        """Number of columns in the file, from the first of its version."""


def versions_of(table: TableInfo, files: Iterable[StoredFile], columns_at: ColumnsAt) -> Versions:
    """Returns the columns of the versions to which the files refer."""
    former = {file.schema_id for file in files} - {table.schema_id}
    return {table.schema_id: table.schema, **{schema_id: columns_at(schema_id) for schema_id in former}}


def check_columns(table: TableInfo, files: Iterable[StoredFile]) -> None:
    """Raises SourceChanged if a file was written with later columns than `table` has: a round without them would leave out values."""
    for file in files:
        # A service of an older version numbers no columns: there they are only added.
        if file.schema_id > table.schema_id or (file.schema_id == table.schema_id and file.columns > len(table.schema)):
            raise SourceChanged(f"the columns of {table.path} were changed since it was looked up", table_id=table.table_id)


def columns_in(file: StoredFile, versions: Versions) -> pa.Schema:
    """Returns the columns of a file."""
    schema = versions[file.schema_id]
    return schema if file.columns == len(schema) else _some(schema, range(file.columns))


def as_present(rows: pa.RecordBatch, stored: pa.Schema, present: pa.Schema, names: Collection[str] | None = None) -> pa.RecordBatch:
    """Returns rows of a file with the present columns, and with its change types, which follow the columns, if it has some.

    `names`: the needed columns; None = all. If the table has none of them, the result has the first column, which keeps the number of rows.
    """
    kinds = range(len(stored), rows.num_columns)
    positions = [index for index, name in enumerate(present.names) if names is None or name in names] or [0]
    if stored is present:  # most files need no conversion, which takes long for thousands of columns
        return rows.select([*positions, *kinds])
    present = _some(present, positions)
    converted = converted_rows(rows.select(list(range(len(stored)))), stored, present)
    schema = pa.schema([*present, *(rows.schema.field(index) for index in kinds)])
    return pa.RecordBatch.from_arrays([*converted.columns, *(rows.column(index) for index in kinds)], schema=schema)


def _some(schema: pa.Schema, positions: Iterable[int]) -> pa.Schema:
    """Returns the columns at these positions; the schema without some columns has field ids as the whole one has."""
    metadata: Any = schema.metadata
    return pa.schema([schema.field(position) for position in positions], metadata=metadata)
