"""The changelog of a table, `t$changelog`: the records of its log, with Fluss's columns in front of the table's own.

Names, order and texts are those of Fluss's virtual table `$changelog` (its documentation, "Virtual Tables", and `ChangelogRowConverter` of
0.9): a log table has only `+A`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tiering.cluster.base import SplitReader
from tiering.cluster.capabilities import read_columns
from tiering.errors import InvalidArgument
from tiering.model.tables import CHANGE_TYPE_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN, ChangeType, TableInfo, TableType

CHANGE_TYPE = pa.field("_change_type", pa.string(), nullable=False)
LOG_OFFSET = pa.field("_log_offset", pa.int64(), nullable=False)
COMMIT_TIMESTAMP = pa.field("_commit_timestamp", pa.timestamp("us", tz="UTC"), nullable=False)
CHANGELOG_COLUMNS = (CHANGE_TYPE, LOG_OFFSET, COMMIT_TIMESTAMP)
"""The columns in front of the table's own."""

_STORED = {CHANGE_TYPE.name: CHANGE_TYPE_COLUMN, LOG_OFFSET.name: OFFSET_COLUMN, COMMIT_TIMESTAMP.name: TIMESTAMP_COLUMN}
"""By column of the changelog, the column of `TableInfo.read_schema` that it is made of."""


def changelog_schema(table: TableInfo) -> pa.Schema:
    """Returns the columns of the table's changelog. Raises InvalidArgument if the table has a column of one of the three names."""
    for name in _STORED:
        if name in table.schema.names:
            raise InvalidArgument(
                f"{table.path} has no changelog table, because its column {name!r} has the name of one of the changelog's own columns",
                hint="Read the table itself, or create it again with another name for the column.",
                table_path=table.path,
                column=name,
            )
    return pa.schema([*CHANGELOG_COLUMNS, *table.schema])


@dataclass(frozen=True)
class ChangelogRows:
    """The records of a range of a table's log, with the columns of `changelog_schema`. Implements `RowReader` and `CountedRows`."""

    reader: SplitReader
    columns: pa.Schema
    """The columns of the table."""
    table_type: TableType
    size_bytes: int
    row_count: int | None = None

    @property
    def partition_name(self) -> str | None:
        return self.reader.split.partition_name

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        has_kinds = self.table_type is TableType.PRIMARY_KEY
        stored = [_STORED.get(name, name) for name in columns if has_kinds or name != CHANGE_TYPE.name]
        whole = pa.schema([*CHANGELOG_COLUMNS, *self.columns])
        schema = pa.schema([whole.field(name) for name in columns])
        for batch in read_columns(self.reader, stored or [OFFSET_COLUMN]):
            arrays = [_change_types(batch) if name == CHANGE_TYPE.name else batch.column(_STORED.get(name, name)) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _change_types(batch: pa.RecordBatch) -> pa.Array[Any]:
    texts = pa.array([kind.symbol for kind in sorted(ChangeType)])
    if CHANGE_TYPE_COLUMN in batch.schema.names:
        return texts.take(batch.column(CHANGE_TYPE_COLUMN))
    appended: pa.Array[Any] = pa.repeat(ChangeType.APPEND.symbol, batch.num_rows)
    return appended
