"""The statements that `lakeward demo` shows ask for columns that there are."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from sys_tables.registry import default_registry
from tiering.cli.demo.stage import HEALTH_SQL, ROUNDS_SQL, STATUS_SQL, UPKEEP_SQL
from tiering.cli.demo.story import ERROR_SQL


@pytest.mark.parametrize("text", [STATUS_SQL, ROUNDS_SQL, HEALTH_SQL, UPKEEP_SQL, ERROR_SQL])
def test_a_statement_of_the_demo_asks_for_columns_that_there_are(text: str) -> None:
    statement = sqlglot.parse_one(text, dialect="spark")
    [table] = statement.find_all(exp.Table)
    assert (table.catalog, table.db) == ("fluss", "sys")
    columns = set(default_registry().table(table.name).schema.names)
    assert {column.name for column in statement.find_all(exp.Column)} <= columns
