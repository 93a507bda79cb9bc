"""The section of docs/on-call.md about unhealthy lake tables: its statements are about columns that there are, and its answer is what a
table with many small files gives."""

from __future__ import annotations

import re
from pathlib import Path

import sqlglot
from sqlglot import exp

from support.repository import ROOT
from support.sql_examples import cell_text, load_examples
from support.upkeep.degraded_tables import Degradation, degraded_table
from support.worlds.lake_world import LakeWorld
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry

SECTION = (
    (ROOT / "docs" / "on-call.md").read_text(encoding="utf-8").partition("## Which lake tables are slow to read?")[2].partition("\n## ")[0]
)
STATEMENTS = re.findall(r"```sql\n([^`]*);\n```", SECTION)


def test_its_statements_ask_for_columns_that_there_are() -> None:
    assert len(STATEMENTS) == 2
    for text in STATEMENTS:
        statement = sqlglot.parse_one(text, dialect="spark")
        [table] = statement.find_all(exp.Table)
        assert (table.catalog, table.db) == ("fluss", "sys")
        columns = set(default_registry().table(table.name).schema.names)
        assert {column.name for column in statement.find_all(exp.Column)} <= columns
    [example] = [example for example in load_examples(ROOT / "sql_examples") if example.file_name in SECTION]
    assert example.sql.split() == STATEMENTS[0].split()


def test_its_answer_is_that_of_a_table_with_many_small_files(tmp_path: Path) -> None:
    world = LakeWorld(tmp_path)
    degraded_table(world, "orders", Degradation(snapshots=40, files=40))
    world.coordinator.lake_health.observe()
    [row] = default_registry().table("lake_table_health").rows(world.coordinator.view(), ScanRequest())
    heading, answer = re.findall(r"^\| (.*) \|$", SECTION, re.MULTILINE)[:3:2]
    assert answer.split(" | ") == [cell_text(getattr(row, name)) for name in heading.split(" | ")]
    world.close()
