"""How a lake table lays out its rows: with Lakeward's columns behind the table's own, or without. Pure, for the lakes of all formats.

    system-columns   `__bucket`, `__offset`, `__timestamp` behind the table's own columns, partitioned by `__bucket` unless there is
                     exactly one bucket key, sorted by `__offset`; as Fluss up to 0.9 writes lake tables. Offsets prove the rows.
    clean            the table's own columns alone, partitioned by its partition columns and, if there is exactly one, the bucket key;
                     as Fluss from 1.0 writes them (FIP-27). Footers of data files and the marker prove the rows (`tiering.lake.proof`).

A lake table keeps the layout that it was made with, and its columns tell which that is. A new one gets that of its option.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

import pyarrow as pa

from tiering.errors import InvalidArgument
from tiering.model.tables import SYSTEM_COLUMNS, TIMESTAMP_COLUMN, TableInfo

LAYOUT_OPTION = "table.datalake.layout"


class Layout(StrEnum):
    """See the module."""

    SYSTEM_COLUMNS = "system-columns"
    CLEAN = "clean"

    @property
    def has_row_offsets(self) -> bool:
        """Whether each row has its bucket, offset and time in columns; else its file's footer tells bucket and offset."""
        return self is Layout.SYSTEM_COLUMNS

    @property
    def partitions_by_bucket(self) -> bool:
        """Whether files of a table without exactly one bucket key are partitioned by `__bucket`; else buckets share a partition."""
        return self is Layout.SYSTEM_COLUMNS

    def lake_schema(self, table: TableInfo) -> pa.Schema:
        """The columns of `table`'s lake table, in order."""
        return table.lake_schema() if self.has_row_offsets else table.schema


DEFAULT_LAYOUT = Layout.SYSTEM_COLUMNS


def wanted_layout(properties: Mapping[str, str]) -> Layout:
    """The layout of a lake table that is made for a table with these options. Raises InvalidArgument naming the option."""
    value = properties.get(LAYOUT_OPTION, DEFAULT_LAYOUT)
    try:
        return Layout(value.lower())
    except ValueError as error:
        raise InvalidArgument(f"the option {LAYOUT_OPTION} is {value[:60]!r}", hint=f"It may be: {', '.join(Layout)}.") from error


def layout_of(columns: Collection[str], former_columns: Collection[str] = ()) -> Layout:
    """The layout of a lake table that has these columns, and had `former_columns`: a table whose `__timestamp` somebody dropped or
    renamed is a damaged one with system columns, not a clean one."""
    has_system_columns = any(name in columns for name in SYSTEM_COLUMNS) or TIMESTAMP_COLUMN in former_columns
    return Layout.SYSTEM_COLUMNS if has_system_columns else Layout.CLEAN
