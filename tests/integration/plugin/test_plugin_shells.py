"""The catalog in processes of their own: the spark-sql shell, and a Spark Connect server."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.running.processes import wait_for
from support.running.spark_sessions import sql_shell
from support.values.own_procedure import procedure
from support.worlds.memory_coordinator import MemoryCoordinator, table_info, table_status
from sys_tables.declare.procedure import Call
from tiering.model.declare import column

PATIENCE_S = 120
_closed: list[str] = []
_started_files: list[Path] = []
"""Made when the service has begun the procedure `forever`: the client, another process, waits for them."""


@dataclass(frozen=True)
class NoParameters:
    pass


@dataclass(frozen=True)
class CallerRow:
    caller: str = column("Who called.")


@procedure("who", NoParameters, CallerRow, comment="Says who calls.", mutates=False)
async def who(call: Call, parameters: Any) -> AsyncIterator[str | CallerRow]:
    yield CallerRow(parameters.caller)


@pytest.fixture
def properties(serve: Callable[..., Any], plugin_jar: Path) -> dict[str, str]:
    """Properties with which any Spark sees the service as its default catalog."""
    coordinator = MemoryCoordinator([table_info("demo.Flights")], [table_status("demo.Flights", status="Tiered")])
    return {
        "spark.driver.extraClassPath": str(plugin_jar),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.defaultCatalog": "fluss",
        "spark.sql.catalog.fluss": "io.lakeward.spark.LakewardCatalog",
        "spark.sql.catalog.fluss.uri": serve(coordinator, procedures=[who, forever]).uri,
    }


@procedure("forever", NoParameters, CallerRow, comment="Never ends by itself.", mutates=False)
async def forever(call: Call, parameters: Any) -> AsyncIterator[str | CallerRow]:
    yield "waiting"
    for file in _started_files:
        file.touch()
    try:
        await asyncio.Event().wait()
    finally:
        _closed.append("forever")


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs to the end: that it ends, with the catalog's connection open, is part of what is tested."""
    inherited = {name: value for name, value in os.environ.items() if name != "SPARK_USER"}
    environment = {**inherited, "PYSPARK_PYTHON": sys.executable, **environment}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_the_sql_shell_reads_calls_and_ends(properties: dict[str, str], tmp_path: Path) -> None:
    ended = run(
        [*sql_shell(properties), "-e", "SELECT table_name, status FROM sys.lake_tiering_status; CALL sys.who(); SELECT * FROM sys.nope"],
        tmp_path,
    )

    assert "Flights\tTiered" in ended.stdout, ended.stderr
    assert f"\n{pwd.getpwuid(os.getuid()).pw_name}\n" in ended.stdout
    assert ended.returncode != 0
    assert "there is no system table fluss.sys.nope" in ended.stderr
    assert "io.grpc" not in ended.stderr


CONNECT_CLIENT = """
import json, sys, threading
from pathlib import Path
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

builder = SparkSession.builder.remote("local[1]")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()

print("rows", [tuple(row) for row in spark.sql("SELECT table_name, status FROM sys.lake_tiering_status").collect()])
print("caller", spark.sql("CALL sys.who()").collect()[0].caller)
for statement in ("SELECT * FROM sys.nope", "CALL sys.tier_table('demo.nope')"):
    try:
        spark.sql(statement).collect()
    except AnalysisException as error:
        print("error", str(error).splitlines()[0])


def call():
    try:
        spark.sql("CALL sys.forever()").collect()
    except Exception as error:
        print("interrupted", type(error).__name__)


waiting = threading.Thread(target=call)
waiting.start()
while waiting.is_alive():
    if Path(sys.argv[2]).exists():  # an interrupt before the call has reached the service would prove nothing
        spark.interruptAll()
    waiting.join(0.2)
"""


@pytest.mark.soak
def test_spark_connect_reads_calls_and_interrupts(properties: dict[str, str], tmp_path: Path) -> None:
    _closed.clear()
    _started_files[:] = [tmp_path / "started"]
    script = tmp_path / "client.py"
    script.write_text(CONNECT_CLIENT)

    # A Connect client takes its user from USER; Spark itself asks the operating system.
    client = run([sys.executable, str(script), json.dumps(properties), str(_started_files[0])], tmp_path, USER="ann")

    assert client.returncode == 0, client.stderr
    output = client.stdout
    assert "rows [('Flights', 'Tiered')]" in output
    assert "caller ann" in output
    assert "error [TABLE_OR_VIEW_NOT_FOUND] there is no system table fluss.sys.nope." in output
    assert "error [UnknownTable] there is no table demo.nope. Hint: The tables of demo are: Flights." in output
    assert "interrupted" in output
    wait_for("the service to stop working for a caller who has gone", lambda: _closed == ["forever"])
