"""The tierer's Spark refuses every peer without its secret, and the secret is on no command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from support.running.spark_sessions import end_jvm
from tiering.round.tasks.spark_session import AUTHENTICATE, SECRET, authentication, needs_secret, open_spark

PATIENCE_S = 120
SMALL = {"spark.driver.memory": "512m", "spark.executor.memory": "512m", "spark.sql.catalogImplementation": "in-memory"}


@pytest.fixture
def session(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A tierer's, on the master of the test."""
    end_jvm()
    spark = open_spark(request.param, "authentication", SMALL)
    try:
        assert spark.range(3).count() == 3
        yield spark
    finally:
        end_jvm()


def rogue_executor(driver_url: str) -> subprocess.CompletedProcess[str]:
    """Another user of this machine who offers the driver an executor, and would get its settings and tasks."""
    words = ["--driver-url", driver_url, "--executor-id", "99", "--bind-address", "127.0.0.1", "--hostname", "127.0.0.1"]
    program = [f"{_find_spark_home()}/bin/spark-class", "org.apache.spark.executor.CoarseGrainedExecutorBackend", *words]
    environment = {name: value for name, value in os.environ.items() if name != "_SPARK_AUTH_SECRET"}
    return subprocess.run(
        [*program, "--cores", "1", "--app-id", "rogue", "--resourceProfileId", "0"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment,
        check=False,
    )


def command_lines() -> list[str]:
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return lines


@pytest.mark.in_turn("session")
@pytest.mark.parametrize("session", ["local[1]", "local-cluster[1,1,1024]"], indirect=True)
def test_an_executor_without_the_secret_is_turned_away(session: SparkSession) -> None:
    port = session.conf.get("spark.driver.port")

    ended = rogue_executor(f"spark://CoarseGrainedScheduler@127.0.0.1:{port}")

    assert ended.returncode != 0
    output = ended.stdout + ended.stderr
    assert "Expected SaslMessage" in output or "SASL" in output or "uthentication" in output, output[-3_000:]
    assert "Successfully registered with driver" not in output


@pytest.mark.soak
@pytest.mark.parametrize("session", ["local-cluster[1,1,1024]"], indirect=True)
def test_the_secret_is_on_no_command_line(session: SparkSession) -> None:
    secret = session.conf.get(SECRET)

    assert secret is not None
    assert len(secret) == 64
    lines = command_lines()
    assert any("CoarseGrainedExecutorBackend" in line for line in lines)
    assert [line for line in lines if secret in line] == []


@pytest.mark.parametrize(
    ("master", "settings", "authenticated", "secret"),
    [
        ("local", {}, "true", False),
        ("local[*]", {}, "true", False),
        ("local[4,2]", {}, "true", False),
        ("yarn", {}, "true", False),
        ("k8s://https://host:6443", {}, "true", False),
        ("local-cluster[2,1,1024]", {}, "true", True),
        ("local-cluster[2,1,1024]", {SECRET: "of the user"}, "true", False),
        ("local-cluster[2,1,1024]", {AUTHENTICATE: "false"}, "false", False),
        ("spark://host:7077", {}, None, False),
        ("spark://host:7077", {AUTHENTICATE: "true"}, "true", False),
    ],
)
def test_who_makes_the_secret(master: str, settings: dict[str, str], authenticated: str | None, secret: bool) -> None:
    all_settings = {**settings, **authentication(master, settings)}
    assert all_settings.get(AUTHENTICATE) == authenticated
    assert needs_secret(master, all_settings) is secret
