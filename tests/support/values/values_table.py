"""A system table with a value of every comparable type, where comparing is tricky: NULL, NaN, zeros, bytes beyond the basic plane."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import EVERY_CALLER
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import INT, column


@dataclass(frozen=True)
class ValueRow:
    id: int = column("Number of the row.")
    text: str | None = column("A STRING.")
    small: int | None = column("An INT.", arrow_type=INT)
    big: int | None = column("A BIGINT.")
    real: float | None = column("A DOUBLE.")
    truth: bool | None = column("A BOOLEAN.")
    moment: datetime | None = column("A TIMESTAMP.")
    words: tuple[str, ...] | None = column("An ARRAY.")


def moment(second: int, microsecond: int = 0) -> datetime:
    return datetime(2026, 3, 1, 12, 0, second, microsecond, tzinfo=UTC)


ROWS = [
    ValueRow(1, "apple", 1, 10, 1.5, True, moment(1), ("a",)),
    ValueRow(2, "Apple", -1, 2**62, math.nan, False, moment(2, 1), ()),
    ValueRow(3, "", 0, 0, -0.0, True, moment(2), None),
    ValueRow(4, None, None, None, None, None, None, None),
    ValueRow(5, "ap_le%", 2**31 - 1, -(2**63), math.inf, False, moment(3), ("b",)),
    ValueRow(6, "\U0001f600 emoji", 7, 7, -math.inf, None, moment(4), None),
    ValueRow(7, "\uffff last of the basic plane", 8, 8, 0.0, None, moment(5), None),
]


@system_table("values", ValueRow, requires=EVERY_CALLER, comment="Values.")
def values(view: CoordinatorView, scan: ScanRequest) -> Iterator[ValueRow]:
    yield from ROWS
