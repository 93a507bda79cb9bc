"""A waiting CALL of each client ends on the service once it is interrupted or its client is dead: by the service's own list.

One JVM is both Connect and Thrift server; the clients are processes of their own, so that they can be killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from support.running.processes import Process, wait_for
from support.worlds.memory_coordinator import MemoryCoordinator, TierSteps, table_info, table_status
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.procedures.base import Progress
from tiering.procedures.tier_table import TierTable

SPARK_HOME = Path(pyspark.__file__).parent
WITHIN_S = 30.0
"""Seconds within which a CALL has to be over after Spark cancelled it, on a busy machine. The procedure itself would wait forever."""
SLOWEST_START_S = 120

CALL = "CALL fluss.sys.tier_table('demo.flights')"

GIVE_UP = {
    "spark.connect.execute.reattachable.senderMaxStreamDuration": "1s",
    "spark.connect.execute.manager.detachedTimeout": "2s",
    "spark.connect.execute.manager.maintenanceInterval": "200ms",
}
"""Time-outs as in docs/calls.md, but shorter: without them Spark Connect keeps the statement of a vanished client for minutes."""

SPARK_GIVES_UP_S = 1 + 2 + 0.2
LONG_POLL_MS = 300
"""The Thrift server learns that a client is gone when it ends a long poll."""

CONNECT_CLIENT = """
import sys, threading
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
Path(sys.argv[2]).touch()

def call():
    spark.addTag("mine")  # of this thread
    try:
        spark.sql("CALL fluss.sys.tier_table('demo.flights')").collect()
    except Exception as error:
        print("ended:", type(error).__name__, flush=True)

for line in sys.stdin:
    if line.strip() == "call":
        waiting = threading.Thread(target=call, daemon=True)
        waiting.start()
    else:
        print("interrupted", eval(line.strip()), flush=True)
        waiting.join(30)
"""

CLASSIC_CLIENT = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]")
for name, value in json.loads(sys.argv[1]).items():
    builder = builder.config(name, value)
builder.getOrCreate().sql(sys.argv[2]).collect()
"""


JDBC_CLIENT = """
import sys
from pyspark.java_gateway import launch_gateway
connection = launch_gateway().jvm.java.sql.DriverManager.getConnection(sys.argv[1], "ann", "")
connection.createStatement().execute(sys.argv[2])
"""


async def forever(call: TierTable) -> TierSteps:
    yield Progress("waiting")
    await asyncio.Event().wait()


@pytest.fixture(scope="module")
def service(serve_module: Callable[..., Any]) -> Any:
    """A service whose table is never tiered."""
    return serve_module(MemoryCoordinator([table_info("demo.flights")], [table_status("demo.flights")], tier=forever))


@pytest.fixture(scope="module")
def properties(service: Any, plugin_jar: Path) -> dict[str, str]:
    return {
        "spark.driver.extraClassPath": str(plugin_jar),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.catalog.fluss": "io.lakeward.spark.LakewardCatalog",
        "spark.sql.catalog.fluss.uri": service.uri,
    }


@pytest.fixture(scope="module")
def spark_server(properties: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of Connect and of JDBC."""
    connect, thrift, folder = HeldPort(), HeldPort(), tmp_path_factory.mktemp("spark-server")
    confs = properties | GIVE_UP | {"spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin"}
    confs |= {"spark.connect.grpc.binding.port": str(connect.number), "spark.connect.grpc.binding.address": "127.0.0.1"}
    server = "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2"
    options = [part for name, value in confs.items() for part in ("--conf", f"{name}={value}")]
    hive = {"long.polling.timeout": LONG_POLL_MS, "thrift.bind.host": "127.0.0.1", "thrift.port": thrift.number}
    hiveconfs = [part for name, value in hive.items() for part in ("--hiveconf", f"hive.server2.{name}={value}")]
    command = ["--master", "local[2]", *options, "--class", server, "spark-internal", *hiveconfs]
    process = Process(*command, log=folder / "log", program=(str(SPARK_HOME / "bin" / "spark-submit"),), cwd=folder)
    try:
        wait_for("the Thrift server", lambda: "HiveThriftServer2 started" in process.output() or None, SLOWEST_START_S)
        yield f"sc://{connect.address}", f"jdbc:hive2://{thrift.address}/default"
    finally:
        process.close()
        connect.close()
        thrift.close()


def client(script: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A process group of its own, as a person's terminal gives it one."""
    log = (folder / "client.log").open("w")
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        start_new_session=True,
        cwd=folder,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )


def wait_open(service: Any) -> str:
    """Until the service works on one CALL; its key."""
    wait_for("the service works on the call", lambda: len(service.handle.open_calls.list()) == 1, SLOWEST_START_S)
    key: str = service.handle.open_calls.list()[0].idempotency_key
    return key


def seconds_until_over(service: Any) -> float:
    since = time.monotonic()
    wait_for("the call is over", lambda: not service.handle.open_calls.list())
    return time.monotonic() - since


@pytest.fixture
def connect_client(spark_server: tuple[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Connected; makes a CALL for each line `call`, and evaluates any other line while that CALL waits."""
    ready = tmp_path / "ready"
    process = client(CONNECT_CLIENT, tmp_path, spark_server[0], str(ready))
    wait_for("the Connect client", lambda: ready.exists() or None, SLOWEST_START_S)
    yield process
    end(process)


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def end(process: subprocess.Popen[str]) -> None:
    """With a signal that leaves it no time for a goodbye."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_connect_ends_a_call_that_is_interrupted_or_whose_client_is_killed(service: Any, connect_client: subprocess.Popen[str]) -> None:
    for interrupt in ("spark.interruptAll()", "spark.interruptTag('mine')", "spark.interruptOperation('{}')"):
        say(connect_client, "call")
        key = wait_open(service)
        assert key.startswith("SparkConnect_OperationTag_User_")
        say(connect_client, interrupt.format(key.rpartition("_")[2]))
        took = seconds_until_over(service)
        assert took < WITHIN_S, (interrupt, took)
    say(connect_client, "call")
    wait_open(service)
    end(connect_client)
    assert seconds_until_over(service) < SPARK_GIVES_UP_S + WITHIN_S


def test_jdbc_ends_a_call_that_is_cancelled(service: Any, spark_server: tuple[str, str], jvm: SparkSession) -> None:
    connection = jvm._jvm.java.sql.DriverManager.getConnection(spark_server[1], "ann", "")
    statement, ended = connection.createStatement(), []

    def call() -> None:
        try:
            statement.execute(CALL)
        except Py4JJavaError as error:
            ended.append(str(error))

    caller = threading.Thread(target=call)
    caller.start()
    wait_open(service)
    # Hive's driver forgets a cancel for good that comes before it was told its statement's handle, of which the id is a part.
    wait_for("the driver knows its statement", statement.getYarnATSGuid)
    statement.cancel()
    assert seconds_until_over(service) < WITHIN_S
    caller.join(SLOWEST_START_S)
    assert "Query was cancelled" in ended[0]
    connection.close()


def test_the_call_of_a_jdbc_client_that_is_killed_ends(service: Any, spark_server: tuple[str, str], tmp_path: Path) -> None:
    process = client(JDBC_CLIENT, tmp_path, spark_server[1], CALL)
    wait_open(service)
    end(process)
    assert seconds_until_over(service) < WITHIN_S


@pytest.mark.soak
def test_the_call_of_a_classic_driver_that_is_killed_ends(service: Any, properties: dict[str, str], tmp_path: Path) -> None:
    process = client(CLASSIC_CLIENT, tmp_path, json.dumps(properties), CALL)
    wait_open(service)
    end(process)
    assert seconds_until_over(service) < WITHIN_S
