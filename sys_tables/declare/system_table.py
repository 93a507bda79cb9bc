"""A system table: its name, the dataclass of its rows, and the function that makes them.

    @system_table("open_calls", OpenCallRow, comment="CALLs that the service works on now, the oldest first.")
    def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[OpenCallRow]:
        ...

`sys_tables.registry` finds whatever the modules of `sys_tables/tables` define.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from sys_tables.declare.columns import schema_of
from sys_tables.declare.scan import Order, ScanRequest
from tiering.coordinator.interface import Columns, CoordinatorView

RowT = TypeVar("RowT")


@dataclass(frozen=True)
class SystemTable:
    """A table of `sys`. Its row dataclass declares the schema; `rows` makes the rows from one moment of the coordinator.

    `rows` runs in a thread and may take its time. The scan's conditions and limit are applied to what it yields. For a table
    with very many rows it may return whole columns instead.

    `newest_first`: columns without NULLs, by which `rows` yields the largest first. A scan that asks for this order, or for its beginning,
    is not sorted, and draws no more rows than its limit.

    `is_history`: it has a row for whatever happened, the newest first, and may be long; an export has the beginning alone.
    """

    name: str
    row_class: type
    comment: str
    rows: Callable[[CoordinatorView, ScanRequest], Iterable[object] | Columns]
    newest_first: tuple[str, ...] = ()
    is_history: bool = False

    def is_ordered(self, order: Sequence[Order]) -> bool:
        """Whether `rows` come in that order."""
        wanted = tuple(key.column for key in order if key.descending)
        return len(wanted) == len(order) and wanted == self.newest_first[: len(wanted)]

    @property
    def schema(self) -> pa.Schema:
        """Its columns, with comments."""
        return schema_of(self.row_class)


def system_table(
    name: str, row_class: type[RowT], *, comment: str, newest_first: tuple[str, ...] = (), is_history: bool = False
) -> Callable[[Callable[[CoordinatorView, ScanRequest], Iterable[RowT] | Columns]], SystemTable]:
    """A decorator for a function that yields rows of `row_class`, or returns columns of the same names: the table `sys.<name>`."""

    def define(rows: Callable[[CoordinatorView, ScanRequest], Iterable[RowT] | Columns]) -> SystemTable:
        return SystemTable(name, row_class, comment, rows, newest_first, is_history)

    return define
