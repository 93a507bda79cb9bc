"""GUI and BI tools get the answers that they need to what each sends first. `tools/` has what Superset itself sent, and for the other
tools what their public sources send.

The tools themselves do not run here. For Superset, the libraries run through which it talks to a Thrift server: PyHive and SQLAlchemy.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.doc_blocks import DocBlocks
from support.readers.environment import TEST_SECONDS
from support.repository import ROOT
from support.services.sql_clients import result_rows
from support.superset.environment import SUPERSET

TOOLS = Path(__file__).with_name("tools")
PATIENCE_S = 180
CREATED = (
    "CREATE DATABASE fluss.bi",
    "CREATE TABLE fluss.bi.Orders"
    " (id BIGINT NOT NULL COMMENT 'Number of the order.', amount DECIMAL(10,2), day STRING COMMENT 'Day of the order.')"
    " PARTITIONED BY (day) COMMENT 'All orders.' TBLPROPERTIES ('table.datalake.enabled' = 'false')",
)
DROPPED = ("DROP TABLE fluss.bi.Orders", "DROP DATABASE fluss.bi")
SUPERSET_PROGRAM = """
import json, sys
import superset_config
from sqlalchemy import create_engine, inspect, text

engine = create_engine(sys.argv[1])
inspector = inspect(engine)
columns = {column["name"]: str(column["type"]) for column in inspector.get_columns("Orders", schema="bi")}
with engine.connect() as connection:
    rows = connection.execute(text("SELECT count(*) AS flights, max(id) AS newest FROM demo.flights")).fetchall()
print(json.dumps({
    "schemas": inspector.get_schema_names(),
    "tables": inspector.get_table_names(schema="bi"),
    "views": inspector.get_view_names(schema="bi"),
    "columns": columns,
    "indexes": [index["column_names"] for index in inspector.get_indexes("Orders", schema="bi")],
    "rows": [list(row) for row in rows],
}))
"""


@pytest.fixture(scope="module")
def bi_url(thrift_server: Path, jdbc_url: str, jvm: Any) -> Iterator[str]:
    """The URL of a database with a partitioned table `Orders`."""
    run_all(jvm, jdbc_url, CREATED)
    yield jdbc_url.removesuffix("/sys") + "/bi"
    run_all(jvm, jdbc_url, DROPPED)


def run_all(jvm: Any, url: str, statements: tuple[str, ...]) -> None:
    connection = jvm.java.sql.DriverManager.getConnection(url, "ann", "")
    try:
        for sql in statements:
            connection.createStatement().execute(sql)
    finally:
        connection.close()


def java_array(jvm: Any, texts: list[str]) -> Any:
    array = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.String"), len(texts))
    for position, text in enumerate(texts):
        jvm.java.lang.reflect.Array.set(array, position, text)
    return array


def difference(jvm: Any, connection: Any, step: Mapping[str, Any]) -> str | None:
    """Returns what is wrong with the answer to a step; None if it is as recorded."""
    name = step.get("sql") or f"{step['call']}{step['arguments']}"
    try:
        if "sql" in step:
            statement = connection.createStatement()
            answer = result_rows(statement.getResultSet()) if statement.execute(step["sql"]) else None
        else:
            arguments = [java_array(jvm, value) if isinstance(value, list) else value for value in step["arguments"]]
            answer = result_rows(getattr(connection.getMetaData(), step["call"])(*arguments))
    except Exception as error:  # py4j has one class for all that Java throws
        return None if "error" in step and step["error"] in str(error) else f"{name}: an error: {error}"
    if "error" in step:
        return f"{name}: no error"
    if "contains" in step:
        return None if answer and step["contains"] in str(answer.cells) else f"{name}: {answer}"
    positions = [answer.columns.index(column) for column in step["columns"]] if answer and step["columns"] else None
    cells = [[row[position] for position in positions] if positions else list(row) for row in answer.cells] if answer else []
    return None if cells == step["rows"] else f"{name}: {cells}"


@pytest.mark.parametrize("tool", ["dbeaver", "datagrip", "superset", "metabase", "tableau", "dbt"])
def test_what_a_tool_sends_first_is_answered(bi_url: str, jvm: Any, tool: str) -> None:
    recording = json.loads((TOOLS / f"{tool}.json").read_text())
    connection = jvm.java.sql.DriverManager.getConnection(bi_url, "ann", "")
    try:
        differences = [difference(jvm, connection, step) for step in recording["steps"]]
    finally:
        connection.close()

    assert [text for text in differences if text] == []


def test_every_recording_has_a_section_of_the_page() -> None:
    page = (ROOT / "docs" / "connect.md").read_text()
    tools = [json.loads(path.read_text()) for path in sorted(TOOLS.glob("*.json"))]

    sections = [tool["tool"] for tool in tools if f"\n#### {tool['tool']}\n" in page]
    assert sections == ["DataGrip", "DBeaver", "Metabase", "Superset", "Tableau"], "dbt has a page of its own"
    assert all(tool["sources"] for tool in tools)


@pytest.mark.timeout(TEST_SECONDS)
def test_the_libraries_of_superset(bi_url: str, blocks: DocBlocks, tmp_path: Path) -> None:
    SUPERSET.make()
    (tmp_path / "superset_config.py").write_text(blocks["superset_config.py"])
    (tmp_path / "program.py").write_text(SUPERSET_PROGRAM)
    uri = blocks["superset-uri"].strip().removesuffix("/sys") + "/bi"

    ended = subprocess.run(
        [SUPERSET.python, "program.py", uri], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )

    assert ended.returncode == 0, ended.stderr[-4_000:]
    assert json.loads(ended.stdout.splitlines()[-1]) == {
        "schemas": ["bi", "demo", "sys"],
        "tables": ["Orders"],
        "views": [],
        "columns": {"id": "BIGINT", "amount": "DECIMAL", "day": "VARCHAR"},
        "indexes": [["day"]],
        "rows": [[100, 99]],
    }
