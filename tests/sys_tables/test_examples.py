from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify

from support.repository import ROOT
from support.sql_examples import Example, ExpectedError, ExpectedRows, cell_text, differences, load_examples, parse_example
from sys_tables.registry import default_registry
from tiering.errors import InvalidData
from tiering.model.sql_types import spark_type

FOLDER = ROOT / "sql_examples"
EXAMPLES = load_examples(FOLDER)
REGISTRY = default_registry()
SYSTEM_TABLES = {table.name: {field.name: spark_type(field.type) for field in table.schema} for table in REGISTRY.tables}
FLIGHTS = {"id": "BIGINT", "text": "STRING"}
HIDDEN = {"__bucket": "INT", "__offset": "BIGINT", "__timestamp": "TIMESTAMP"}
CHANGELOG = {"_change_type": "STRING", "_log_offset": "BIGINT", "_commit_timestamp": "TIMESTAMP"}
DATA_TABLES = {"flights": FLIGHTS | HIDDEN, "flights$lake": FLIGHTS | HIDDEN, "flights$changelog": CHANGELOG | FLIGHTS}
"""Tables of the setting that can be read (sql_examples/README.md)."""
CATALOG = {"fluss": {"sys": SYSTEM_TABLES, "demo": DATA_TABLES}}

GOOD = """-- Title: A title
-- Answers: what it is,
--   and why.

SELECT a, 'x|y' AS b
FROM t;

-- Expected:
-- | a | b |
-- | --- | --- |
-- | 1 | x\\|y |
-- | * | NULL |
-- | ... |
"""


def parsed(example: Example) -> exp.Expression:
    """The statement; a CALL, which sqlglot has no grammar for, as the SELECT of its call."""
    sql = example.sql
    if sql.startswith("CALL "):
        sql = "SELECT " + sql.removeprefix("CALL ")
    return sqlglot.parse_one(sql, dialect="spark", error_level=sqlglot.ErrorLevel.RAISE)


def of_kind(*kinds: str) -> list[Example]:
    return [example for example in EXAMPLES if example.sql.split()[0] in kinds]


def by_file(example: Example) -> str:
    return example.file_name


def test_every_statement_is_of_a_kind_that_is_checked_below() -> None:
    assert set(EXAMPLES) == set(of_kind("SELECT", "CALL", "SHOW", "DESCRIBE"))
    assert len(list(FOLDER.glob("*.sql"))) == len(EXAMPLES)


@pytest.mark.parametrize("example", of_kind("SELECT"), ids=by_file)
def test_a_select_names_existing_tables_and_columns_and_expects_its_own(example: Example) -> None:
    statement = parsed(example)
    for table in statement.find_all(exp.Table):
        assert table.name in CATALOG[table.catalog][table.db]
    assert isinstance(example.expected, ExpectedRows)
    assert tuple(statement.named_selects) == example.expected.columns
    qualify(statement, dialect="spark", schema=CATALOG, validate_qualify_columns=True)


@pytest.mark.parametrize("example", of_kind("CALL"), ids=by_file)
def test_a_call_names_an_existing_procedure_and_its_arguments(example: Example) -> None:
    (call,) = parsed(example).find_all(exp.Anonymous)
    assert example.sql.startswith("CALL fluss.sys.")
    procedure = REGISTRY.procedure(call.name)
    positional = [argument for argument in call.expressions if not isinstance(argument, exp.Kwarg)]
    named = [argument.this.name for argument in call.expressions if isinstance(argument, exp.Kwarg)]
    taken = [parameter.name for parameter in procedure.parameters]
    assert set(named) <= set(taken[len(positional) :])
    assert {parameter.name for parameter in procedure.parameters if parameter.required} <= {*named, *taken[: len(positional)]}
    if isinstance(example.expected, ExpectedRows):
        assert list(example.expected.columns) == procedure.output_schema.names


@pytest.mark.parametrize("example", of_kind("SHOW", "DESCRIBE"), ids=by_file)
def test_a_command_is_about_what_exists(example: Example) -> None:
    statement = parsed(example)
    if isinstance(statement, exp.Describe):
        assert REGISTRY.table(statement.this.name)
    else:
        assert example.sql.split()[-1] in ("fluss", "fluss.sys", "fluss.demo")


def test_every_table_and_procedure_has_an_example() -> None:
    shown = " ".join(example.sql for example in EXAMPLES)
    assert [table.name for table in REGISTRY.tables if f"fluss.sys.{table.name}" not in shown] == []
    assert [procedure.name for procedure in REGISTRY.procedures if f"CALL fluss.sys.{procedure.name}(" not in shown] == []


def test_a_file_says_title_question_statement_and_rows() -> None:
    example = parse_example("007_some_words.sql", GOOD)
    assert (example.number, example.title, example.answers) == (7, "A title", "what it is, and why.")
    assert example.sql == "SELECT a, 'x|y' AS b\nFROM t"
    assert example.expected == ExpectedRows(("a", "b"), (("1", "x|y"), ("*", "NULL")), more=True)


def test_a_file_may_expect_an_error() -> None:
    text = GOOD[: GOOD.index("-- Expected:")] + "-- Expected error:\n-- no table t\n-- hint\n"
    assert parse_example("007_x.sql", text).expected == ExpectedError(("no table t", "hint"))


@pytest.mark.parametrize(
    ("file_name", "old", "new"),
    [
        ("7_x.sql", "", ""),
        ("007_X.sql", "", ""),
        ("007_x.sql", "-- Title: ", "-- title: "),
        ("007_x.sql", "-- Answers: ", "-- Says: "),
        ("007_x.sql", "--   and", "-- and"),
        ("007_x.sql", "FROM t;", "FROM t"),
        ("007_x.sql", "FROM t;", "FROM t; SELECT 1;"),
        ("007_x.sql", "FROM t;", "FROM t -- why\n;"),
        ("007_x.sql", "\n\n-- Expected:", "\n-- Expected:"),
        ("007_x.sql", "-- Expected:", "-- Result:"),
        ("007_x.sql", "-- | --- | --- |\n", ""),
        ("007_x.sql", "-- | * | NULL |", "-- | * |"),
        ("007_x.sql", "-- | * | NULL |", "-- * NULL"),
        ("007_x.sql", "-- | * | NULL |", "| * | NULL |"),
    ],
)
def test_a_file_that_breaks_the_format_is_refused_by_name(file_name: str, old: str, new: str) -> None:
    assert old in GOOD
    with pytest.raises(InvalidData, match=file_name):
        parse_example(file_name, GOOD.replace(old, new, 1))


def test_a_number_is_used_once(tmp_path: Path) -> None:
    for name in ("001_a.sql", "001_b.sql"):
        (tmp_path / name).write_text(GOOD)
    with pytest.raises(InvalidData, match=r"001_a\.sql and 001_b\.sql"):
        load_examples(tmp_path)


def test_results_are_compared_cell_by_cell_in_order() -> None:
    expected = ExpectedRows(("a", "b"), (("1", "x"), ("*", "NULL")), more=False)
    assert differences(expected, ["a", "b"], [(1, "x"), (None, None)]) == []
    assert differences(expected, ["b", "a"], []) == ["the columns are b, a, not a, b"]
    assert differences(expected, ["a", "b"], [(1, "x")]) == ["there are 1 rows, not 2"]
    assert differences(expected, ["a", "b"], [(2, None), (1, "x")]) == ["row 1 is 2 | NULL, not 1 | x", "row 2 is 1 | x, not * | NULL"]
    assert differences(expected, ["a", "b"], [(1, "x"), (0, None), (0, None)]) == ["there are 3 rows, not 2"]
    more = ExpectedRows(("a", "b"), (("1", "x"),), more=True)
    assert differences(more, ["a", "b"], [(1, "x"), (9, 9)]) == []
    assert differences(more, ["a", "b"], []) == ["there are 0 rows, not 1 or more"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "true"),
        (0.5, "0.5"),
        (datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC), "2026-03-01 12:00:00.5"),
        (datetime(2026, 3, 1, 12, 0, tzinfo=UTC), "2026-03-01 12:00:00"),
        (["a", None], "[a, NULL]"),
        (("a", 1), "{a, 1}"),
        ({"0": 7}, "{0 -> 7}"),
    ],
)
def test_values_are_shown_as_spark_casts_them(value: object, text: str) -> None:
    assert cell_text(value) == text
