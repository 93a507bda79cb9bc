"""One deployment, and Spark's two servers beside it, for all SQL clients; started as docs/connect.md says."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j import java_gateway, protocol
from pyspark.java_gateway import launch_gateway

from support.doc_blocks import DocBlocks
from support.repository import ROOT
from support.running.cluster_of_processes import SCHEMA, Deployment
from support.running.processes import Process, wait_for
from support.services.client_statements import PLANES_ROWS, ROWS
from support.services.sql_clients import COMMANDS, run
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath

PAGE = ROOT / "docs" / "connect.md"
FLIGHTS, PLANES = TablePath("demo", "flights"), TablePath("demo", "planes")
SERVER_SECONDS = 300
"""A Spark is ready after 10 s, but machines are busy."""
OWN_PROPERTIES = """
# of this machine
spark.master local[2]
spark.driver.bindAddress 127.0.0.1
spark.driver.host 127.0.0.1
spark.driver.memory 1g
spark.ui.enabled false
spark.sql.shuffle.partitions 2
"""
"""Properties that a user adds to the file: here, that the machine of the tests is small."""
NO_METASTORE = "spark.sql.catalogImplementation in-memory\n"
"""For a Spark that has no use for one: making it takes seconds. The Thrift server has its own, as it has by default."""


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The setting of support/services/client_statements.py."""
    deployment = Deployment(tmp_path_factory.mktemp("up"))
    try:
        deployment.start_up()
        deployment.create(FLIGHTS, freshness="1 h")
        deployment.append(FLIGHTS, 0, ROWS)
        with deployment.cluster() as cluster:
            cluster.create_table(PLANES, TableSpec(SCHEMA, 1, properties={"table.datalake.enabled": "false"}))
        deployment.append(PLANES, 0, PLANES_ROWS, pieces=1)
        deployment.lakeward("tier", str(FLIGHTS))
        yield deployment
    finally:
        deployment.close()


@pytest.fixture(scope="package")
def blocks(service: Deployment) -> Iterator[DocBlocks]:
    """Blocks of the page, with this deployment's addresses."""
    with HeldPort() as thrift, HeldPort() as connect:
        instead = {"127.0.0.1:7707": service.uri, ":10000": f":{thrift.number}", "port=10000": f"port={thrift.number}"}
        yield DocBlocks(PAGE, {**instead, ":15002": f":{connect.number}", "port=15002": f"port={connect.number}"})


@pytest.fixture(scope="package")
def home(blocks: DocBlocks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the commands are run, with `fluss.conf` made as the page says."""
    folder = tmp_path_factory.mktemp("home")
    assert run(blocks["properties"], folder) == ""
    with (folder / "fluss.conf").open("a") as file:
        file.write(OWN_PROPERTIES)
    return folder


@pytest.fixture(scope="package")
def thrift_server(home: Path, blocks: DocBlocks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Thrift server, ready; the folder that the command was run in."""
    with _server(blocks["thrift-server"], home, tmp_path_factory.mktemp("thrift"), "HiveThriftServer2 started"):
        yield home


@pytest.fixture(scope="package")
def connect_server(home: Path, blocks: DocBlocks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Connect server, ready; the folder that the command was run in."""
    with _server(blocks["connect-server"], home, tmp_path_factory.mktemp("connect"), "Spark Connect server started", NO_METASTORE):
        yield home


@contextmanager
def _server(command: str, home: Path, folder: Path, ready_message: str, further: str = "") -> Iterator[None]:
    """Runs a server in a folder of its own, for its metastore; stops it at the end."""
    (folder / "fluss.conf").write_text((home / "fluss.conf").read_text() + further)
    process = Process("-c", f"exec {command}", log=folder / "log", env={"PATH": COMMANDS}, program=("bash",), cwd=folder)
    try:
        wait_for(ready_message, lambda: _ready(process, ready_message), SERVER_SECONDS)
        yield
    finally:
        process.close()


def _ready(process: Process, message: str) -> bool:
    assert process.popen.poll() is None, process.output()[-4_000:]
    return message in process.output()


@pytest.fixture(scope="package")
def jdbc_url(blocks: DocBlocks) -> str:
    """The one that the page gives to beeline; it ends in the database `sys`."""
    words = shlex.split(blocks["beeline"])
    return words[words.index("-u") + 1]


@pytest.fixture(scope="package")
def jvm() -> Iterator[Any]:
    """A JVM with Spark's jars, without a Spark: a Java program that is written in Python.

    Errors come as py4j makes them: a Spark session that ran in this process before leaves its own conversion behind, which needs a Spark.
    """
    converted, java_gateway.get_return_value = java_gateway.get_return_value, protocol.get_return_value
    gateway = launch_gateway()
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(SERVER_SECONDS)
        java_gateway.get_return_value = converted


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> Path:
    """A folder of the test's own, with the properties."""
    (tmp_path / "fluss.conf").write_text((home / "fluss.conf").read_text() + NO_METASTORE)
    return tmp_path
