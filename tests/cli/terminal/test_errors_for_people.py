"""Bad input from the command line: one clear message, the right exit status, nothing made."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from support.running.cluster_of_processes import Deployment, started
from support.running.processes import Process, wait_for
from support.services.certificates import Authority
from support.services.served import at_uri
from support.worlds.coordinator_world import World
from tiering.cli.processes.data_folder import open_data_folder
from tiering.errors import SetupError


def run(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tiering.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, env=None if env is None else dict(env), check=False)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A coordinator without a tierer."""
    with started(Deployment(tmp_path_factory.mktemp("service"))) as deployment:
        yield deployment


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    file = tmp_path / "rows.csv"
    file.write_text("id,text\n1,a\n2,b\n")
    return file


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = run("coordinator", "--data", str(tmp_path / "data"), "--port", port)
    assert result.returncode == 1
    assert f"port {port}" in result.stderr
    assert "Traceback" not in result.stderr


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    result = run("up", "--data", str(tmp_path / "data"), "--port", "0", env={"PATH": str(tmp_path)})
    assert result.returncode == 1
    assert "no Java was found" in result.stderr
    assert "Install a JDK 17" in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_data_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("coordinator", "--data", str(tmp_path / "file" / "data"), "--port", "0")
    assert result.returncode == 1
    assert f"cannot write to the data folder {tmp_path / 'file' / 'data'}" in result.stderr


def test_a_data_folder_of_another_version_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "VERSION").write_text("99\n")
    with pytest.raises(SetupError, match="format version 99"):
        open_data_folder(tmp_path)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(SetupError, match="not a Lakeward data folder"):
        open_data_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_no_service_at_the_uri_is_exit_status_3_and_names_the_uri() -> None:
    result = run("status", "--uri", "127.0.0.1:1")
    assert result.returncode == 3
    assert "127.0.0.1:1" in result.stderr


def test_listening_off_loopback_needs_insecure(tmp_path: Path) -> None:
    result = run("coordinator", "--data", str(tmp_path / "data"), "--host", "0.0.0.0", "--port", "0")
    assert result.returncode == 1
    assert "--insecure" in result.stderr


def test_a_second_coordinator_waits_for_the_folder_and_can_be_stopped_meanwhile(service: Deployment) -> None:
    second = Process("coordinator", "--data", str(service.data.root), "--port", "0", log=service.folder / "second.log")
    try:
        wait_for("it says that it waits", lambda: "waiting for another coordinator" in second.output())
        second.send(signal.SIGTERM)
        assert second.wait_ended() == 0
        assert "lakeward is ready" not in second.output()
    finally:
        second.close()


@pytest.mark.parametrize("table", ["../x.t", "db." + "t" * 201, "db.a b", "db.'; DROP TABLE t", "sys.t", "db", "db.__t"])
def test_a_bad_name_is_refused_before_anything_is_made(service: Deployment, csv_file: Path, table: str) -> None:
    result = run("ingest", table, str(csv_file), "--uri", service.uri)
    assert result.returncode == 2
    assert "name" in result.stderr
    with service.cluster() as cluster:
        assert list(cluster.tables()) == []


def test_a_broken_csv_row_names_file_and_line_and_appends_nothing(service: Deployment, tmp_path: Path) -> None:
    file = tmp_path / "broken.csv"
    file.write_text("id,text\n1,a\n2,b,extra\n")
    result = run("ingest", "shop.broken", str(file), "--uri", service.uri)
    assert result.returncode == 2
    assert "broken.csv" in result.stderr
    assert "3" in result.stderr
    with service.cluster() as cluster:
        assert "shop" not in cluster.databases()


def test_tiering_a_table_without_lake_or_an_unknown_one_says_so(service: Deployment, csv_file: Path) -> None:
    assert run("ingest", "lakeless.plain", str(csv_file), "--no-lake", "--uri", service.uri).returncode == 0
    disabled = run("tier", "lakeless.plain", "--uri", service.uri)
    unknown = run("tier", "lakeless.nope", "--uri", service.uri)
    with service.cluster() as cluster:
        cluster.drop_table(cluster.tables("lakeless")[0].path)
    assert (disabled.returncode, unknown.returncode) == (2, 2)
    assert "lake" in disabled.stderr
    assert "table.datalake.enabled" in disabled.stderr
    assert "lakeless.nope" in unknown.stderr


def test_a_wrong_option_value_names_the_option(service: Deployment, csv_file: Path) -> None:
    result = run("ingest", "shop.orders", str(csv_file), "--freshness", "soon", "--uri", service.uri)
    assert result.returncode == 2
    assert "soon" in result.stderr


def test_a_certificate_of_an_unknown_authority_is_one_message(tmp_path: Path) -> None:
    """gRPC writes a line of its own for each handshake that failed, unless it is kept from it."""
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    with at_uri(World(), tls=Authority(tmp_path).server()) as uri:
        stranger = Authority(tmp_path, "other").trusted
        ended = run("status", "--uri", uri, "--tls-ca", str(stranger.tls_ca), env=environment)
    message, hint = ended.stderr.splitlines()
    assert message.startswith(f"lakeward: no safe connection to {uri}: this client does not trust")
    assert "--tls-ca" in hint
