"""Rows for reads of system tables: three statuses, and a table of words in two versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from support.worlds.memory_coordinator import NOON, table_status
from sys_tables.declare.system_table import SystemTable
from sys_tables.registry import Registry
from tiering.access.requirements import EVERY_CALLER
from tiering.model.declare import INT, column

THREE = (
    table_status("d.a", status="Failed", last_error="boom", error_count=2, consecutive_failures=2, lag_ms=9_000, fraction_completed=0.25),
    table_status("d.b", status="Tiering", lag_ms=0, round_started_time=NOON, fraction_completed=0.5),
    table_status("e.a", status="Scheduled"),
)


@dataclass(frozen=True)
class WordRow:
    """A row of `sys.words`."""

    word: str = column("A word.")
    length: int = column("Its length.")


@dataclass(frozen=True)
class NarrowWordRow:
    """A later version of the row: narrower, and with one more column."""

    word: str = column("A word, at last explained.")
    length: int = column("Its length.", arrow_type=INT)
    vowels: int = column("Its vowels.")


def words(row_class: type, rows: Callable[[], Iterator[Any]]) -> Registry:
    """A registry with one table, `sys.words`."""
    return Registry([SystemTable("words", row_class, "Words.", EVERY_CALLER, lambda view, scan: rows())])
