"""The runner of `.slt` files reports each difference, and refuses lines that are not in the format."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.slt.answers import cell
from support.slt.drawn_batches import differences
from support.slt.expressions import Kind
from support.slt.queries import DrawnQuery
from support.slt.slt_files import faults, read_records
from tiering.cli.sql.engine import Result
from tiering.errors import StatementFailed

FILE = """# a comment
query IT rowsort
SELECT id,
  name
----
1\ta
2\tNULL

onlyif spark
statement error no such
SELECT x

statement ok
SELECT 1
"""


@dataclass
class FixedEngine:
    """Answers each statement with the same rows, or fails."""

    columns: Sequence[str] = ("id", "name")
    rows: Sequence[Sequence[Any]] = ((2, None), (1, "a"))
    error: str | None = None
    statements: list[str] = field(default_factory=list)

    def execute(self, statement: str) -> Result:
        self.statements.append(statement)
        if self.error is not None:
            raise StatementFailed(self.error)
        return Result(self.columns, self.rows)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some.slt"
    path.write_text(FILE)
    return path


def test_a_file_has_its_records_for_each_engine(file: Path) -> None:
    records = read_records(file, ("spark", "duckdb"))
    assert [(record.line, record.sql, sorted(record.engines)) for record in records] == [
        (2, "SELECT id,\n  name", ["duckdb", "spark"]),
        (10, "SELECT x", ["spark"]),
        (13, "SELECT 1", ["duckdb", "spark"]),
    ]


@pytest.mark.parametrize(
    ("engine", "fault"),
    [
        (FixedEngine(), None),
        (FixedEngine(rows=((1, "a"),)), "has the rows\n1\ta"),
        (FixedEngine(rows=((1, "a"), (2, ""))), "has the rows\n1\ta\n2\t(empty)"),
        (FixedEngine(rows=((2.0, None), (1, "a"))), "has values in 'id' that are not of the type I"),
        (FixedEngine(columns=("id",), rows=((1,),)), "has 1 columns and not 2"),
        (FixedEngine(error="no such column"), "failed: no such column"),
    ],
)
def test_another_answer_is_a_fault(file: Path, engine: FixedEngine, fault: str | None) -> None:
    [record, *_] = read_records(file, ("spark",))
    assert list(faults(record, engine)) == ([] if fault is None else [fault])


@pytest.mark.parametrize(
    ("engine", "fault"),
    [
        (FixedEngine(error="no such column"), None),
        (FixedEngine(error="too late"), "failed: too late"),
        (FixedEngine(), "did not fail with 'no such'"),
    ],
)
def test_an_expected_error_has_its_text(file: Path, engine: FixedEngine, fault: str | None) -> None:
    [_, record, _] = read_records(file, ("spark",))
    assert list(faults(record, engine)) == ([] if fault is None else [fault])


@pytest.mark.parametrize(
    "line", ["query IX\nSELECT 1", "query\nSELECT 1", "statement maybe\nSELECT 1", "SELECT 1", "query I sorted\nSELECT 1"]
)
def test_a_line_that_begins_no_record_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "wrong.slt").write_text(line)
    with pytest.raises(ValueError, match="begins no record"):
        read_records(tmp_path / "wrong.slt", ("spark",))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        ("", "(empty)"),
        ("a\tb", "a\\u{9}b"),
        (True, "true"),
        (-0.0, "0"),
        (math.nan, "NaN"),
        (0.1 + 0.2, "0.3"),
        (Decimal("-0.00"), "0"),
        (Decimal("100"), "100"),
        (Decimal("1.50"), "1.5"),
        (datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC), "2026-01-01 00:00:00.5"),
        (["a", None], "[a, NULL]"),
        ({"k": 1}, "{k: 1}"),
        (b"\x00", "x'00'"),
    ],
)
def test_a_value_is_written_as_in_the_files(value: object, text: str) -> None:
    assert cell(value) == text


def test_rows_that_only_one_engine_has_are_told() -> None:
    query = DrawnQuery("SELECT 1 AS c0", (Kind.WHOLE,))
    spark, duckdb = FixedEngine(rows=((0, 1), (0, 1))), FixedEngine(rows=((0, 1), (0, 2)))
    [difference] = differences([query], spark, duckdb)
    assert difference == "SELECT 1 AS c0\n  Spark alone has {('1',): 1}\n  DuckDB alone has {('2',): 1}"
    assert differences([query], spark, spark) == []


def test_an_error_of_one_engine_is_a_difference() -> None:
    query = DrawnQuery("SELECT 1 AS c0", (Kind.WHOLE,))
    failing = FixedEngine(error="overflow")
    [difference] = differences([query], FixedEngine(rows=((0, 1),)), failing)
    assert difference.endswith("DuckDB: overflow")
    assert differences([query], failing, failing) == []
