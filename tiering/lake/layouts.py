"""The layouts of a lake table: with Lakeward's columns behind the table's own, or without them. Pure, for the lakes of all formats.

    system-columns   `__bucket`, `__offset`, `__timestamp` behind the table's own columns, partitioned by `__bucket` unless there is
                     exactly one bucket key, sorted by `__offset`, as Fluss up to 0.9 writes lake tables. Offsets prove the rows.
    clean            only the table's own columns, partitioned by its partition columns and, if there is exactly one, the bucket key, as
                     Fluss from 1.0 writes them (FIP-27). Footers of data files and the marker prove the rows (`tiering.lake.proof`).

A lake table keeps the layout with which it was created, and its columns tell which one that is. A new table gets the layout of its option.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

import pyarrow as pa

from tiering.model.tables import SYSTEM_COLUMNS, TIMESTAMP_COLUMN, TableInfo


class Layout(StrEnum):
    """The layout of a lake table, as the module describes it."""

    SYSTEM_COLUMNS = "system-columns"
    CLEAN = "clean"

    @property
    def has_row_offsets(self) -> bool:
        """Whether each row has its bucket, offset and time in columns. If not, its file's footer tells bucket and offset."""
        return self is Layout.SYSTEM_COLUMNS

    @property
    def partitions_by_bucket(self) -> bool:
        """Whether files are partitioned by `__bucket` unless there is exactly one bucket key. If not, buckets share a partition."""
        return self is Layout.SYSTEM_COLUMNS

    def lake_schema(self, table: TableInfo) -> pa.Schema:
        """Returns the columns of `table`'s lake table, in order."""
        return table.lake_schema() if self.has_row_offsets else table.schema


def layout_of(columns: Collection[str], former_columns: Collection[str] = ()) -> Layout:
    """Returns the layout of a lake table with these columns that had `former_columns`. If a user dropped or renamed `__timestamp`, it is a
    damaged table with system columns and not a clean one."""
    has_system_columns = any(name in columns for name in SYSTEM_COLUMNS) or TIMESTAMP_COLUMN in former_columns
    return Layout.SYSTEM_COLUMNS if has_system_columns else Layout.CLEAN
