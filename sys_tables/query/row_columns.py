"""Row objects by column: what a system table yields, as `api.Columns`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sys_tables.declare.columns import array_of
from tiering.coordinator.interface import AnyArray


class RowColumns:
    """The attributes of rows. Raises ValueError for None in a column that has no NULLs, when that is asked for."""

    def __init__(self, rows: Sequence[object], schema: pa.Schema) -> None:
        self.rows = rows
        self._schema = schema
        self._columns: dict[str, AnyArray] = {}

    @property
    def num_rows(self) -> int:
        return len(self.rows)

    def column(self, name: str) -> AnyArray:
        """Made once, however many conditions look at it."""
        if name not in self._columns:
            self._columns[name] = array_of(self._schema.field(name), [getattr(row, name) for row in self.rows])
        return self._columns[name]

    def take(self, indices: AnyArray) -> RowColumns:
        return RowColumns([self.rows[index] for index in indices.to_pylist()], self._schema)
