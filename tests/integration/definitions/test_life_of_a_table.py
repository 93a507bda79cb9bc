"""The whole life of tables in the spark-sql shell: create, write, tier, change, tier again, drop. The lake is exact at each step."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.spark_sessions import plugin_properties, sql_shell

PATIENCE_S = 300
STEP = "=== "
"""Begins the line with the name of a step in the output of the shell."""


class Story:
    """A script for the shell. Each step is some statements, and a query with the rows that it must return as the shell prints them."""

    def __init__(self) -> None:
        self._statements: list[str] = []
        self.expected: dict[str, list[str]] = {}

    def do(self, *statements: str) -> None:
        """Adds statements whose output does not count."""
        self._statements += statements

    def shows(self, step: str, query: str, *rows: str) -> None:
        """Adds a query and its rows, sorted."""
        self._statements += [f"SELECT '{STEP}{step}'", query, f"SELECT '{STEP}'"]
        self.expected[step] = sorted(rows)

    def tiered(self, step: str, table: str, columns: str, *rows: str) -> None:
        """Adds a round of the table and a complete proof of its lake table. The lake has exactly these rows, and so has the table."""
        path = table.removeprefix("fluss.")
        database, name = path.split(".")
        self.do(f"CALL fluss.sys.tier_table('{path}')", f"CALL fluss.sys.validate_table('{path}', 'rows')")
        self.shows(f"{step}: the lake", f"SELECT {columns} FROM fluss.{database}.`{name}$lake`", *rows)
        self.shows(f"{step}: the table", f"SELECT {columns} FROM {table}", *rows)
        wrong = f"SELECT `check`, details FROM fluss.sys.validation_results WHERE table_name = '{name}' AND NOT ok"
        self.shows(f"{step}: the proof", wrong)

    @property
    def script(self) -> str:
        return ";\n".join(self._statements) + ";\n"


def blocks(output: str) -> Iterator[tuple[str, list[str]]]:
    """Yields each step with its sorted lines."""
    step, lines = "", list[str]()
    for line in output.splitlines():
        if line.startswith(STEP.strip()):
            if step:
                yield step, sorted(lines)
            step, lines = line.removeprefix(STEP.strip()).strip(), []
        else:
            lines.append(line)


def keyed_table(story: Story) -> None:
    story.do(
        "CREATE TABLE fluss.life.orders"
        " (id BIGINT NOT NULL, qty INT COMMENT 'pieces', note STRUCT<text: STRING, mark: INT>, day DATE NOT NULL)"
        " PARTITIONED BY (day)"
        " TBLPROPERTIES ('primary.key' = 'id, day', 'bucket.num' = '2',"
        " 'table.datalake.enabled' = 'true', 'table.datalake.freshness' = '1 h')",
        "INSERT INTO fluss.life.orders VALUES (1, 10, struct('a', 1), DATE '2026-03-01'), (2, 20, NULL, DATE '2026-03-02')",
    )
    story.tiered("created", "fluss.life.orders", "id, qty, note.text", "1\t10\ta", "2\t20\tNULL")
    story.do(
        "ALTER TABLE fluss.life.orders RENAME COLUMN qty TO `order`",
        "ALTER TABLE fluss.life.orders ALTER COLUMN `order` TYPE BIGINT",
        "ALTER TABLE fluss.life.orders ADD COLUMN note.author STRING FIRST",
        "INSERT INTO fluss.life.orders VALUES (1, 5000000000, struct('me', 'b', 2), DATE '2026-03-01'), (3, 3, NULL, DATE '2026-03-02')",
    )
    rows = ("1\t5000000000\tme\tb", "2\t20\tNULL\tNULL", "3\t3\tNULL\tNULL")
    story.shows("renamed, before the round", "SELECT id, `order`, note.author, note.text FROM fluss.life.orders", *rows)
    story.tiered("renamed", "fluss.life.orders", "id, `order`, note.author, note.text", *rows)
    story.do(
        "ALTER TABLE fluss.life.orders DROP COLUMN note",
        "ALTER TABLE fluss.life.orders ADD COLUMN note STRING FIRST",
        "DELETE FROM fluss.life.orders WHERE id = 2 AND day = DATE '2026-03-02'",
        "INSERT INTO fluss.life.orders (id, day, `order`, note) VALUES (4, DATE '2026-03-03', 4, 'plain')",
    )
    story.tiered("dropped", "fluss.life.orders", "note, id, `order`", "NULL\t1\t5000000000", "NULL\t3\t3", "plain\t4\t4")
    story.do("ALTER TABLE fluss.life.orders DROP PARTITION (day = DATE '2026-03-03')")
    story.shows("a partition less, whose rows stay in the lake", "SELECT id FROM fluss.life.orders", "1", "3", "4")
    story.shows("partitions", "SHOW PARTITIONS fluss.life.orders", "day=2026-03-01", "day=2026-03-02")


def log_table(story: Story) -> None:
    story.do(
        "CREATE TABLE fluss.life.visits TBLPROPERTIES ('table.datalake.enabled' = 'true', 'table.datalake.freshness' = '1 h')"
        " AS SELECT id, CAST(id AS INT) AS pages, 'x' AS `select` FROM range(3)"
    )
    story.tiered("created from a query", "fluss.life.visits", "id, pages, `select`", "0\t0\tx", "1\t1\tx", "2\t2\tx")
    story.do(
        "ALTER TABLE fluss.life.visits RENAME COLUMN pages TO id2",
        "ALTER TABLE fluss.life.visits RENAME COLUMN id TO pages",
        "ALTER TABLE fluss.life.visits RENAME COLUMN id2 TO id",
        "ALTER TABLE fluss.life.visits ALTER COLUMN id FIRST",
        "ALTER TABLE fluss.life.visits SET TBLPROPERTIES ('table.datalake.on-drop-column' = 'drop', 'comment' = 'visits of a day')",
        "ALTER TABLE fluss.life.visits DROP COLUMN `select`",
        "INSERT INTO fluss.life.visits VALUES (7, 8)",
    )
    story.tiered("exchanged names", "fluss.life.visits", "*", "0\t0", "1\t1", "2\t2", "7\t8")
    story.shows("types", "SELECT typeof(id), typeof(pages) FROM fluss.life.`visits$lake` LIMIT 1", "int\tbigint")


def the_end(story: Story) -> None:
    story.do("DROP TABLE fluss.life.orders PURGE", "DROP TABLE fluss.life.visits", "DROP DATABASE fluss.life")
    story.shows("nothing is left", "SELECT table_name FROM fluss.sys.tables WHERE database_name = 'life'")
    story.shows("a lake table is kept", "SELECT count(*) FROM lake.life.visits", "4")
    story.shows("a lake table went with its table", "SHOW TABLES IN lake.life", "visits")


@pytest.fixture
def shell(service: Deployment, tmp_path: Path) -> list[str]:
    """The command of a spark-sql shell with the plugin."""
    properties = {
        **plugin_properties(service),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    return sql_shell(properties, "local[2]")


def test_tables_live_in_the_sql_shell_from_create_to_drop(shell: list[str], tmp_path: Path) -> None:
    story = Story()
    story.do("CREATE DATABASE fluss.life")
    keyed_table(story)
    log_table(story)
    the_end(story)
    script = tmp_path / "story.sql"
    script.write_text(story.script)

    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [*shell, "-f", str(script)]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    assert ended.returncode == 0, ended.stderr[-4_000:]
    assert dict(blocks(ended.stdout)) == story.expected
