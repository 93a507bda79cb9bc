"""A system table: its name, the dataclass of its rows, the privilege that its reader needs, and the function that makes its rows.

    @system_table("open_calls", OpenCallRow, requires=EVERY_CALLER, comment="CALLs that the service works on now, the oldest first.")
    def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[OpenCallRow]:
        ...

`sys_tables.registry` finds the tables that the modules of `sys_tables/tables` define.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from sys_tables.declare.scan import Order, ScanRequest
from tiering.access.requirements import Requirement
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import schema_of
from tiering.model.reading.matching import Columns

RowT = TypeVar("RowT")


@dataclass(frozen=True)
class SystemTable:
    """A table of `sys`. Its row dataclass declares the schema; `rows` makes the rows from one moment of the coordinator.

    `rows` runs in a thread and may take its time. The reader applies the scan's conditions and limit to the rows. For a table
    with very many rows, `rows` may return whole columns instead.
    """

    name: str
    row_class: type
    comment: str
    requires: Requirement
    """The privilege that a reader needs: on the service (`read` checks it), or on the table of each row (the view omits other rows)."""
    rows: Callable[[CoordinatorView, ScanRequest], Iterable[object] | Columns]
    requires_note: str = ""
    """A sentence of docs/security-grants.md about the rows."""
    further: tuple[tuple[Requirement, str], ...] = ()
    """Further privileges, each with the columns and rows that it shows in addition, as docs/security-grants.md names them."""
    newest_first: tuple[str, ...] = ()
    """Columns without NULLs, by which `rows` yields the largest first. The reader does not sort a scan that requests this order, or its
    beginning, and draws no more rows than the limit."""
    is_history: bool = False
    """Whether the table has a row for each past event, the newest first, and may be long. An export contains only its newest rows."""

    def read(self, view: CoordinatorView, scan: ScanRequest) -> Iterable[object] | Columns:
        """Returns the rows. Raises AccessDenied for a caller without the required privilege on the service."""
        view.require(self.requires)
        return self.rows(view, scan)

    def is_ordered(self, order: Sequence[Order]) -> bool:
        """Returns whether `rows` come in that order."""
        columns = tuple(key.column for key in order if key.descending)
        return len(columns) == len(order) and columns == self.newest_first[: len(columns)]

    @property
    def schema(self) -> pa.Schema:
        """The columns, with comments."""
        return schema_of(self.row_class)


def system_table(
    name: str,
    row_class: type[RowT],
    *,
    comment: str,
    requires: Requirement,
    requires_note: str = "",
    further: tuple[tuple[Requirement, str], ...] = (),
    newest_first: tuple[str, ...] = (),
    is_history: bool = False,
) -> Callable[[Callable[[CoordinatorView, ScanRequest], Iterable[RowT] | Columns]], SystemTable]:
    """Decorates a function that yields rows of `row_class`, or returns columns of the same names: the table `sys.<name>`."""

    def define(rows: Callable[[CoordinatorView, ScanRequest], Iterable[RowT] | Columns]) -> SystemTable:
        return SystemTable(name, row_class, comment, requires, rows, requires_note, further, newest_first, is_history)

    return define
