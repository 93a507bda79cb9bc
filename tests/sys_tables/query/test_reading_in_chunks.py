"""Groups and orders of very many rows: row objects are made, looked at and let go of chunk by chunk."""

from __future__ import annotations

import io
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
import pytest

from sys_tables.declare.scan import Aggregate, Function, Order, ScanRequest
from sys_tables.declare.system_table import SystemTable
from sys_tables.query.arrow_stream import ROWS_AT_ONCE
from sys_tables.query.reading import read_table
from tiering.access.requirements import EVERY_CALLER, Requirement
from tiering.coordinator.interface import CoordinatorView
from tiering.errors import InvalidArgument
from tiering.model.declare import column
from tiering.model.reading.conditions import Filter, Operator

ROWS = 20 * ROWS_AT_ONCE


@dataclass(frozen=True)
class Row:
    number: int = column("Number.")
    kind: str | None = column("One of three, or NULL.")
    text: str = column("Long.")


class Rows:
    """Makes rows, and knows how many of them were alive at one time."""

    def __init__(self, count: int = ROWS) -> None:
        self._count = count
        self._alive: weakref.WeakSet[Row] = weakref.WeakSet()
        self.most_alive = 0

    def make(self, _view: CoordinatorView, _scan: ScanRequest) -> Iterator[Row]:
        for number in range(self._count):
            row = Row((number * 7_919) % self._count, (None, "a", "b", "c")[number % 4], "x" * 100)
            self._alive.add(row)
            if number % 100 == 0:
                self.most_alive = max(self.most_alive, len(self._alive))
            yield row


class View:
    now = datetime(2024, 1, 1, tzinfo=UTC)

    def require(self, requirement: Requirement) -> None:
        """Every caller may read the table."""


def read(rows: Rows, **scan: Any) -> pa.Table:
    table = SystemTable("rows", Row, "", EVERY_CALLER, rows.make)
    pieces = b"".join(read_table(table, cast(CoordinatorView, View()), ScanRequest(**scan)))
    return pa.ipc.open_stream(io.BytesIO(pieces)).read_all()


COUNT = Aggregate(Function.COUNT)


@pytest.mark.parametrize(
    ("scan", "answer"),
    [
        ({"aggregates": (COUNT,)}, {"count(*)": [ROWS]}),
        (
            {"group_by": ("kind",), "aggregates": (COUNT, Aggregate(Function.MAX, "number"))},
            {"kind": [None, "a", "b", "c"], "count(*)": [ROWS // 4] * 4},
        ),
        ({"aggregates": (COUNT,), "filters": (Filter("number", Operator.LESS, (10,)),)}, {"count(*)": [10]}),
        ({"columns": ("number",), "order": (Order("number"),), "limit": 3}, {"number": [0, 1, 2]}),
        ({"order": (Order("number", descending=True),), "limit": 2}, {"number": [ROWS - 1, ROWS - 2]}),
        ({"columns": ("number",), "order": (Order("number"),)}, {"number": [*range(ROWS)]}),
        ({"columns": ("kind",), "order": (Order("number"),), "limit": 0}, {"kind": []}),
    ],
)
def test_few_rows_are_alive_at_one_time(scan: dict[str, Any], answer: dict[str, list[Any]]) -> None:
    rows = Rows()
    shown = read(rows, **scan)
    assert {name: shown[name].to_pylist() for name in answer} == answer
    assert rows.most_alive <= 2 * ROWS_AT_ONCE


def test_equal_rows_keep_their_order() -> None:
    in_order = read(Rows(), columns=("number",), order=(Order("kind"),), limit=3_000)["number"].to_pylist()
    assert in_order == [(number * 7_919) % ROWS for number in range(0, 4 * 3_000, 4)]


def test_no_rows_have_groups_and_an_order() -> None:
    assert read(Rows(0), aggregates=(COUNT,)).to_pylist() == [{"count(*)": 0}]
    assert read(Rows(0), order=(Order("number"),), limit=1).num_rows == 0
    for scan in ({"order": (Order("nothing"),)}, {"aggregates": (COUNT,), "filters": (Filter("nothing", Operator.IS_NULL),)}):
        with pytest.raises(InvalidArgument, match="no column 'nothing'"):
            read(Rows(0), **scan)
