"""`lakeward coordinator --fluss` with wrong input: one error that names the solution, an exit status, and no change."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import structlog

from support.clusters.fluss_owner import CLUSTER_ID, opened_owner
from support.clusters.fluss_server import PASSWORD, USER, login_servers, tablet_server_address, zookeeper_address
from support.clusters.fluss_tables import FlussTables
from support.clusters.scripted_fluss import EVERY_CALL, ScriptedFluss
from support.running.commands import Ended
from support.running.fluss_deployment import LAKE, FlussDeployment
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.cli.fluss_server.local_cluster import LocalFlussCluster
from tiering.cli.main import main
from tiering.cluster.fluss import kind
from tiering.cluster.fluss.memory import FlussMemory, RecordedTable
from tiering.cluster.fluss.settings import BOOTSTRAP_SERVERS, MODE
from tiering.cluster.fluss.settings import CLUSTER_ID as CLUSTER_ID_FACT
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo, TablePath

SCHEMA = pa.schema([pa.field("id", pa.int64())])
GUARD_SECONDS = 90.0
Start = Callable[..., Ended]


@pytest.fixture
def start(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Runs `lakeward coordinator` on a data folder of the test. One that starts after all is ended by SIGTERM, with status 0."""
    before, umask = structlog.get_config(), os.umask(0o077)

    def run(servers: str | None, *options: str, command: str = "coordinator") -> Ended:
        named = () if servers is None else ("--fluss", servers, "--fluss-cluster-id", CLUSTER_ID, "--fluss-mode", "exclusive")
        monkeypatch.setattr(sys, "argv", ["lakeward", command, "--data", str(tmp_path / "data"), "--port", "0", *named, *options])
        guard = threading.Timer(GUARD_SECONDS, os.kill, (os.getpid(), 15))
        guard.start()
        try:
            with pytest.raises(SystemExit) as ended:
                main()
        finally:
            guard.cancel()
        printed = capsys.readouterr()
        return Ended(int(ended.value.code or 0), printed.out, printed.err)

    yield run
    structlog.configure(**before)
    os.umask(umask)


def remembered(folder: Path) -> dict[str, str | None]:
    """Returns the data folder's record of its cluster; empty if there is none."""
    memory = FlussMemory(folder / "data" / "cluster")
    try:
        return {name: memory.fact(name) for name in (CLUSTER_ID_FACT, BOOTSTRAP_SERVERS, MODE)}
    finally:
        memory.close()


@pytest.mark.parametrize("command", ["coordinator", "up"])
def test_a_wrong_port_is_named_with_what_answers_there(start: Start, fluss: LocalFlussCluster, tmp_path: Path, command: str) -> None:
    with HeldPort() as closed:
        for address, reason in (
            (closed.address, f"no Fluss server answers at {closed.address}: Connection refused"),
            (zookeeper_address(fluss), f"{zookeeper_address(fluss)} accepts connections, but does not answer like a Fluss server"),
        ):
            ended = start(address, command=command)
            assert (ended.status, ended.out) == (1, "")
            assert reason in ended.err
            assert "Traceback" not in ended.err
    assert set(remembered(tmp_path).values()) == {None}


def test_a_tablet_servers_port_leads_to_the_coordinator(fluss: LocalFlussCluster, tmp_path: Path) -> None:
    deployment = FlussDeployment(tmp_path, servers=tablet_server_address(fluss, 0))
    try:
        deployment.start_coordinator()
    finally:
        deployment.close()
    assert remembered(tmp_path)[CLUSTER_ID_FACT] == CLUSTER_ID


@pytest.mark.parametrize(
    ("user", "password", "reason"),
    [
        (USER, "Zr4-is-wrong", "Invalid username or password"),
        ("nobody", PASSWORD, "Invalid username or password"),
        (USER, None, "there is no password for the Fluss user 'ada'"),
        (None, None, "not completed authentication"),
    ],
)
def test_a_wrong_login_is_said_and_no_password_is_shown(
    start: Start,
    fluss: LocalFlussCluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    user: str | None,
    password: str | None,
    reason: str,
) -> None:
    for name, value in (("FLUSS_USERNAME", user), ("FLUSS_PASSWORD", password)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    ended = start(login_servers(fluss))
    assert (ended.status, reason in ended.err) == (1, True), ended.err
    assert "FLUSS_PASSWORD" in ended.err
    assert password is None or password not in ended.err
    assert set(remembered(tmp_path).values()) == {None}


@pytest.mark.parametrize("key", [1030, 1032, 1042, 1052])
def test_a_server_that_lacks_a_call_is_too_old_and_the_call_is_named(start: Start, key: int) -> None:
    with ScriptedFluss({known: versions for known, versions in EVERY_CALL.items() if known != key}) as server:
        ended = start(server.address)
        assert ended.status == 1
        assert f"({key})" in ended.err
        assert server.address in ended.err
        assert "Use Fluss 0.9.1" in ended.err


def test_a_server_that_speaks_another_version_of_a_call_is_too_new(start: Start) -> None:
    with ScriptedFluss({**EVERY_CALL, 1042: (1, 2)}) as server:
        ended = start(server.address)
    assert ended.status == 1
    assert "version 0 of LakeTieringHeartbeat (1042) (it supports 1 to 2)" in ended.err


def test_another_cluster_under_the_address_is_told_by_its_tables(
    start: Start, fluss: LocalFlussCluster, tables: FlussTables, tmp_path: Path
) -> None:
    table = tables.create("identified", SCHEMA)
    folder = tmp_path / "data" / "cluster"
    with opened_owner(fluss.bootstrap_servers, folder):
        memory = FlussMemory(folder)
        (tmp_path / "data" / "VERSION").write_text("1\n")
        memory.set_fact(CLUSTER_ID_FACT, CLUSTER_ID)
        memory.remember_tables([RecordedTable(table.table_id, TablePath("sales", "of_the_former_cluster"), 1)])
        recorded = memory.known_tables()
        memory.close()
    ended = start(fluss.bootstrap_servers)
    assert ended.status == 1
    assert f"another Fluss cluster answers where '{CLUSTER_ID}' was" in ended.err
    assert "sales.of_the_former_cluster" in ended.err
    memory = FlussMemory(folder)
    assert memory.known_tables() == recorded
    memory.close()
    tables.drop(table)


def test_another_cluster_id_than_the_folders_is_refused(start: Start, fluss: LocalFlussCluster, tmp_path: Path) -> None:
    (tmp_path / "data" / "cluster").mkdir(parents=True)
    (tmp_path / "data" / "VERSION").write_text("1\n")
    memory = FlussMemory(tmp_path / "data" / "cluster")
    memory.set_fact(CLUSTER_ID_FACT, "the former one")
    memory.close()
    ended = start(fluss.bootstrap_servers)
    assert (ended.status, "belongs to the Fluss cluster 'the former one'" in ended.err) == (1, True)
    assert remembered(tmp_path)[CLUSTER_ID_FACT] == "the former one"
    ended = start(None)  # the embedded cluster, on a folder of Fluss's
    assert ended.status == 1
    assert "belongs to a cluster of kind 'fluss', not 'embedded'" in ended.err


def test_a_lake_that_is_not_the_clusters_is_refused(start: Start, fluss: LocalFlussCluster, tables: FlussTables, tmp_path: Path) -> None:
    created = tables.create("tiered_elsewhere", SCHEMA, properties=LAKE)
    with opened_owner(fluss.bootstrap_servers, tmp_path / "other") as owner:
        table: TableInfo = owner.table(created.path)
        owner.record_lake_snapshot(table, RecordedLakeSnapshot(7, {BucketKey(None, 0): 0}))
    ended = start(fluss.bootstrap_servers)
    assert ended.status == 1
    assert "the lake does not belong to the cluster" in ended.err
    assert "--create-lake-tables" in ended.err
    deployment = FlussDeployment(tmp_path, servers=fluss.bootstrap_servers)  # which is told to start all the same
    try:
        deployment.start_coordinator()
    finally:
        deployment.close()
    tables.drop(created)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot be read: No such file"),
        ("a: b\nsecret words\n", "line 2 of"),
        ("a: b\n", "there is no option that begins with datalake.iceberg."),
        ("datalake.format: lance\n", "the cluster's lake format is 'lance'"),
        ("datalake.format: paimon\n", "there is no option that begins with datalake.paimon."),
        ("datalake.paimon.warehouse: s3://bucket/x\n", "the Paimon warehouse 's3://bucket/x' (datalake.paimon.warehouse) is not a folder"),
        ("datalake.iceberg.type: nessie\n", "Lakeward cannot open the lake's catalog 'nessie'"),
        ("datalake.iceberg.type: hadoop\ndatalake.iceberg.warehouse: s3a://bucket/x\n", "a hadoop catalog on an object store (s3a)"),
        ("datalake.iceberg.type: hadoop\ndatalake.iceberg.warehouse: viewfs://nn/x\n", "it has the scheme 'viewfs'"),
        ("datalake.iceberg.type: jdbc\ndatalake.iceberg.warehouse: /x\n", "has no datalake.iceberg.uri"),
    ],
)
def test_a_server_yaml_that_names_no_lake_of_ours_is_refused_before_anything_is_begun(
    start: Start, tmp_path: Path, text: str | None, reason: str
) -> None:
    file = tmp_path / "server.yaml"
    if text is not None:
        file.write_text(text)
    ended = start("127.0.0.1:1", "--fluss-conf", str(file))
    assert ended.status in (1, 2)
    assert reason in ended.err
    assert "secret" not in ended.err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--fluss-cluster-id", "x"), "need --fluss"),
        (("--fluss-mode", "exclusive"), "need --fluss"),
        (("--fluss-auto-compaction",), "need --fluss"),
        (("--fluss-auto-expire-snapshot",), "need --fluss"),
        (("--fluss", "127.0.0.1:1"), "no name was given"),
        (("--fluss", "127.0.0.1", "--fluss-cluster-id", "x"), "is not the address of a server"),
        (("--fluss", "127.0.0.1:1", "--fluss-cluster-id", "x" * 201), "is too long or contains a control character"),
        (("--fluss", "127.0.0.1:1", "--fluss-cluster-id", "x", "--fluss-mode", "sometimes"), "'sometimes' is not one of"),
    ],
)
def test_options_that_do_not_fit_are_refused(start: Start, options: tuple[str, ...], reason: str) -> None:
    ended = start(None, *options)
    assert ended.status in (1, 2)
    assert reason in ended.err


MISSING = """
import sys
sys.modules.update(dict.fromkeys(("rocksdict", "google_crc32c", "fluss")))
from tiering.cli.main import main
main()
"""


@pytest.mark.parametrize(
    "words",
    [
        ("up", "--fluss", "127.0.0.1:1", "--fluss-cluster-id", "x", "--port", "0", "--data", "DATA"),
        ("doctor", "--fluss", "127.0.0.1:1", "--data", "DATA"),
        ("tables", "--fluss", "127.0.0.1:1"),
        ("ingest", "a.b", "FILE", "--fluss", "127.0.0.1:1"),
        ("drop", "a.b", "--yes", "--fluss", "127.0.0.1:1"),
    ],
)
def test_a_wheel_without_the_extra_says_so_in_one_line_everywhere(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id\n1\n")
    places = {"DATA": str(tmp_path / "data"), "FILE": str(tmp_path / "rows.csv")}
    command = [sys.executable, "-c", MISSING, *(places.get(word, word) for word in words)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "[fluss]'" in ended.stdout + ended.stderr


def test_without_the_extra_it_is_said_what_to_install(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "find_spec", lambda name: None)
    ended = start("127.0.0.1:1")
    assert ended.status == 1
    assert "[fluss]'" in ended.err
    assert "Python 3.13" in ended.err
