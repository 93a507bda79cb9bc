"""SQL text into statements, whatever stands between two semicolons."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.cli.sql.statements import split
from tiering.errors import InvalidData


def texts(sql: str) -> list[str]:
    return [statement.text for statement in split(sql).all]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("", []),
        (" ;; -- nothing;\n /* and; nothing */ ;", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;SELECT 2 ;\n", ["SELECT 1", "SELECT 2"]),
        ('SELECT \';\' ; SELECT ";\\";"; SELECT `;`', ["SELECT ';'", 'SELECT ";\\";"', "SELECT `;`"]),
        ("SELECT 'it''s;' -- a;b\n, 2", ["SELECT 'it''s;' -- a;b\n, 2"]),
        ("SELECT /* a /* ; */ ; */ 1; SELECT 2", ["SELECT /* a /* ; */ ; */ 1", "SELECT 2"]),
        ("SELECT '\\';'; SELECT r'\\'; SELECT 3", ["SELECT '\\';'", "SELECT r'\\'", "SELECT 3"]),
        ("SELECT CASE WHEN true THEN 1 END; SELECT 2", ["SELECT CASE WHEN true THEN 1 END", "SELECT 2"]),
        (
            "BEGIN DECLARE x INT DEFAULT CASE WHEN true THEN 1 END; IF x > 0 THEN SELECT 1; END IF; BEGIN SELECT 2; END; END; SELECT 3",
            ["BEGIN DECLARE x INT DEFAULT CASE WHEN true THEN 1 END; IF x > 0 THEN SELECT 1; END IF; BEGIN SELECT 2; END; END", "SELECT 3"],
        ),
        ("BEGIN CASE WHEN a THEN SELECT 1; END CASE; END; SELECT 2", ["BEGIN CASE WHEN a THEN SELECT 1; END CASE; END", "SELECT 2"]),
        ("CALL sys.tier_table('sales.Ørsted'); SELECT '北京;'", ["CALL sys.tier_table('sales.Ørsted')", "SELECT '北京;'"]),
    ],
)
def test_a_semicolon_ends_a_statement_unless_it_is_text(sql: str, expected: list[str]) -> None:
    assert texts(sql) == expected


def test_a_statement_knows_its_line_and_the_last_one_may_be_unfinished() -> None:
    script = split("-- a report\nSELECT 1;\n\n\nSELECT\n2")
    assert [statement.line for statement in script.all] == [2, 5]
    assert script.remaining is not None
    assert script.remaining.text == "SELECT\n2"
    assert split("SELECT 1;").remaining is None


@pytest.mark.parametrize("sql", ["SELECT 'a", "SELECT `a", 'SELECT "a', "SELECT 1 /* a"])
def test_what_is_never_closed_is_refused(sql: str) -> None:
    with pytest.raises(InvalidData, match="never closed"):
        split(sql)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20), max_size=4))
def test_strings_never_break_a_statement(values: list[str]) -> None:
    statements = ["SELECT '" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" for value in values]
    assert texts(" ;\n".join(statements)) == statements
