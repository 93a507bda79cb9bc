"""What one statement sees: what names mean, and the rows of system tables, all of one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import SystemTable
from sys_tables.query.reading import read_table
from tiering.coordinator.interface import CoordinatorView, NamesView


@dataclass(frozen=True)
class StatementView:
    """`read` returns the rows that a scan wants of a system table, as the pieces of an Arrow stream."""

    names: NamesView
    read: Callable[[SystemTable, ScanRequest], Iterator[bytes]]


def statement_view_of(view: CoordinatorView) -> StatementView:
    """The moment that a coordinator's view shows."""
    return StatementView(view, lambda table, scan: read_table(table, view, scan))
