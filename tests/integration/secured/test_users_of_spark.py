"""A Thrift server whose users share one session, and a Connect server: each user sees only what the policies allow that user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment
from support.running.processes import Process, wait_for
from support.services.client_statements import Answer, Rows
from support.services.sql_clients import COMMANDS, ask_beeline, ask_python, run
from tiering.access.client_access import USER_FOLDER
from tiering.access.tokens import add_token, new_token
from tiering.cli.commands.token import tokens_path
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.cli.spark.conf_files import as_properties_file
from tiering.cli.spark.properties import catalog_properties, plugin_jar
from tiering.model.tables import TablePath

ORDERS, SALARIES = TablePath("sales", "orders"), TablePath("hr", "salaries")
SERVER_SECONDS = 400
TAGS_OF_BOB = "SparkConnect_OperationTag_User_bob_Session_00000000-0000-0000-0000-000000000000"
AS_ANOTHER = (
    f"SET spark.job.tags={TAGS_OF_BOB}",
    "SHOW TABLES IN fluss.hr",
    "CALL fluss.sys.tier_table('hr.salaries')",
    "RESET spark.job.tags",
)
"""Spark copies options of a session over the properties of the thread that executes its statements, Connect's tags among them."""
POLICIES = """
permit (principal == User::"ann", action in Action::"read", resource in Database::"sales");
permit (principal == User::"bob", action in Action::"read", resource in Database::"hr");
permit (principal == User::"spark", action == Action::"IMPERSONATE", resource == Service::"lakeward");
"""
STATEMENTS = (
    "SHOW NAMESPACES IN fluss",
    "SELECT database_name, table_name FROM fluss.sys.lake_tiering_status",
    "SHOW TABLES IN fluss.hr",
    "DESCRIBE fluss.sales.orders",
)
SMALL = {
    "spark.master": "local[2]",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.hive.thriftServer.singleSession": "true",
}
SUBMIT = "exec spark-submit --properties-file spark.conf --class org.apache.spark.sql"
THRIFT = (
    f"{SUBMIT}.hive.thriftserver.HiveThriftServer2 spark-internal"
    " --hiveconf hive.server2.thrift.bind.host=127.0.0.1 --hiveconf hive.server2.thrift.port={port}"
)
CONNECT = (
    f"{SUBMIT}.connect.service.SparkConnectServer"
    " --conf spark.connect.grpc.binding.address=127.0.0.1 --conf spark.connect.grpc.binding.port={port} spark-internal"
)


@pytest.fixture(scope="module")
def properties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Properties of a Spark with the token of `spark`, for a service with policies for ann and bob."""
    folder = tmp_path_factory.mktemp("service")
    deployment = Deployment(folder)
    (folder / "policies.cedar").write_text(POLICIES)
    try:
        deployment.start_coordinator("--auth", "token", "--policy", str(folder / "policies.cedar"))
        for path in (ORDERS, SALARIES):
            deployment.create(path, freshness="1 h")
        token, stored = new_token("spark", datetime.now(UTC))
        add_token(tokens_path(deployment.data.root, None), stored)
        (folder / "token").write_text(token + "\n")
        shown = {"spark.sql.catalog.fluss.token-file": str(folder / "token")}
        yield catalog_properties(deployment.uri, plugin_jar()) | shown | SMALL
    finally:
        deployment.close()


@pytest.fixture(scope="module")
def thrift_port(properties: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with _server(THRIFT, "HiveThriftServer2 started", properties, tmp_path_factory.mktemp("thrift")) as port:
        yield port


@pytest.fixture(scope="module")
def connect_port(properties: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with _server(CONNECT, "Spark Connect server started", properties, tmp_path_factory.mktemp("connect")) as port:
        yield port


@contextmanager
def _server(command: str, ready_message: str, properties: dict[str, str], folder: Path) -> Iterator[int]:
    """Yields the port of the server, once it is ready."""
    held_port = HeldPort()
    (folder / "spark.conf").write_text(as_properties_file(properties))
    env = {"PATH": COMMANDS, USER_FOLDER: str(folder)}
    process = Process("-c", command.format(port=held_port.number), log=folder / "log", env=env, program=("bash",), cwd=folder)
    try:
        wait_for(ready_message, lambda: _is_ready(process, ready_message), SERVER_SECONDS)
        yield held_port.number
    finally:
        process.close()
        held_port.close()


def _is_ready(process: Process, message: str) -> bool:
    assert process.popen.poll() is None, process.output()[-4_000:]
    return message in process.output()


def check_each_sees_their_own(ask: Callable[[str], list[Answer]]) -> None:
    """The users take turns, so that what the server keeps of one could be shown to the next."""
    for user, database, table in (("ann", "sales", "orders"), ("bob", "hr", "salaries"), ("ann", "sales", "orders")):
        namespaces, statuses, tables, described = ask(user)
        assert isinstance(namespaces, Rows)
        assert {row[0] for row in namespaces.cells} == {database, "sys"}, user
        assert isinstance(statuses, Rows)
        assert [tuple(row) for row in statuses.cells] == [(database, table)], user
        hidden, shown = (tables, described) if user == "ann" else (described, tables)
        assert isinstance(hidden, str), user
        assert "fluss" in hidden or "no " in hidden
        assert isinstance(shown, Rows), user


def test_users_of_a_thrift_server_that_share_a_session(thrift_port: int, tmp_path: Path) -> None:
    url = f"jdbc:hive2://127.0.0.1:{thrift_port}/default"
    check_each_sees_their_own(lambda user: ask_beeline(f"beeline -u {url} -n {user}", tmp_path, STATEMENTS))


def check_ann_stays_ann(answers: list[Answer]) -> None:
    _, tables, called, _ = answers
    for refusal in (tables, called):
        assert isinstance(refusal, str), refusal
        assert "hr" in refusal
        assert "bob" not in refusal


def test_no_option_of_a_session_makes_a_user_of_a_thrift_server_another_user(thrift_port: int, tmp_path: Path) -> None:
    url = f"jdbc:hive2://127.0.0.1:{thrift_port}/default"
    check_ann_stays_ann(ask_beeline(f"beeline -u {url} -n ann", tmp_path, AS_ANOTHER))


@pytest.mark.soak
def test_no_option_of_a_session_makes_a_user_of_a_connect_server_another_user(connect_port: int, tmp_path: Path) -> None:
    remote = f"sc://127.0.0.1:{connect_port}/;user_id=ann"
    program = f"from pyspark.sql import SparkSession\nspark = SparkSession.builder.remote('{remote}').getOrCreate()\n"
    check_ann_stays_ann(ask_python(program, tmp_path, AS_ANOTHER)[1])


@pytest.mark.soak
def test_users_of_a_connect_server(connect_port: int, tmp_path: Path) -> None:
    """A frame's columns are analysed before anything is executed, by a request that has no operation."""

    def ask(user: str) -> list[Answer]:
        remote = f"sc://127.0.0.1:{connect_port}/;user_id={user}"
        own = ORDERS if user == "ann" else SALARIES
        program = (
            "from pyspark.sql import SparkSession\n"
            f"spark = SparkSession.builder.remote('{remote}').getOrCreate()\n"
            f"print(spark.table('fluss.{own}').columns)\n"
        )
        printed, answers = ask_python(program, tmp_path, STATEMENTS)
        assert printed.endswith("['id', 'text']"), printed
        return answers

    check_each_sees_their_own(ask)


def test_metadata_calls_of_a_thrift_server_show_each_user_their_own(thrift_port: int, tmp_path: Path) -> None:
    for user, shown, hidden in (("ann", "sales", "hr"), ("bob", "hr", "sales"), ("ann", "sales", "hr")):
        command = f"beeline -u jdbc:hive2://127.0.0.1:{thrift_port}/default -n {user} --silent=true --outputformat=tsv2"
        printed = run(command, tmp_path, "-e", "USE fluss;", "-e", "!metadata getSchemas")
        schemas = [line.split("\t")[0] for line in printed.splitlines() if "\t" in line]
        assert schemas == ["TABLE_SCHEM", shown, "sys"], printed
        assert hidden not in printed
