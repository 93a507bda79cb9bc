"""Whatever lies in the current folder, no process of ours runs it: neither a command, nor its children, nor Spark's workers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.repository import ROOT
from support.running.processes import Process
from tiering.child_process import SAFE_PATH
from tiering.cli.processes.data_folder import DataFolder
from tiering.cluster.registry import EMBEDDED
from tiering.errors import UnknownDatabase
from tiering.model.tables import TablePath
from tiering.validate.child import ClusterValidation

LAKEWARD = Path(sys.executable).parent / "lakeward"
MODULES = (
    "structlog",
    "pyspark",
    "grpc",
    "pyarrow",
    "duckdb",
    "pyiceberg",
    "sqlalchemy",
    "typer",
    "rich",
    "json",
    "random",
    "sitecustomize",
)
PACKAGES = ("tiering", "sys_tables")
ROWS = 60


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder: what is imported from it says so in a file, and ends its process."""
    folder = tmp_path / "hostile"
    for package in PACKAGES:
        (folder / package).mkdir(parents=True)
    for file in [*(f"{module}.py" for module in MODULES), *(f"{package}/__init__.py" for package in PACKAGES)]:
        victim = tmp_path / f"ran-{file.replace('/', '-')}"
        (folder / file).write_text(f"open({str(victim)!r}, 'w').close()\nraise SystemExit('hostile code ran')\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv(SAFE_PATH, raising=False)
    yield folder
    assert [path.name for path in tmp_path.glob("ran-*")] == []


@pytest.fixture
def service(hostile: Path, tmp_path: Path) -> Iterator[Process]:
    """`lakeward up` in that folder as working directory; every round is a Spark job."""
    process = lakeward(tmp_path, "up", "--data", str(tmp_path / "data"), "--port", "0", "--master", "local[1]", "--inline-round-bytes", "0")
    try:
        yield process
    finally:
        process.close()


def lakeward(logs: Path, *words: str) -> Process:
    """Starts the command from the PATH, as a user does."""
    return Process(*words, log=logs / f"{words[0]}.log", program=(str(LAKEWARD),))


def test_a_round_on_spark_and_the_commands_around_it_run_nothing_of_it(service: Process, tmp_path: Path) -> None:
    uri = service.wait_ready()
    (tmp_path / "places.csv").write_text("id,city\n" + "".join(f"{number},city {number}\n" for number in range(ROWS)))
    sql = "SELECT count(*) FROM sys.tables"
    for words in [
        ("ingest", "travel.places", str(tmp_path / "places.csv"), "--uri", uri),
        ("tier", "travel.places", "--uri", uri),
        ("status", "--uri", uri),
        ("sql", sql, "--master", "local[1]", "--uri", uri),
        ("sql", sql, "--engine", "duckdb", "--data", str(tmp_path / "data")),
        ("doctor", "--uri", uri, "--data", str(tmp_path / "data")),
        ("validate", "travel.places", "--data", str(tmp_path / "data")),
    ]:
        process = lakeward(tmp_path, *words)
        try:
            assert process.wait_ended(180) == 0, process.output()
        finally:
            process.close()


def test_the_child_that_validates_runs_nothing_of_it(hostile: Path, data_folder: DataFolder) -> None:
    validation = ClusterValidation(EMBEDDED, data_folder.cluster, "iceberg", data_folder.lake_properties)

    with pytest.raises(UnknownDatabase):
        validation.run(TablePath("sales", "none"), "offsets")


@pytest.fixture
def data_folder(tmp_path: Path) -> DataFolder:
    """One with an empty cluster."""
    from tiering.cli.processes.data_folder import open_data_folder
    from tiering.cluster.embedded.storage import EmbeddedStorage

    folder = open_data_folder(tmp_path / "data")
    EmbeddedStorage(folder.cluster).close()
    return folder


def test_there_is_one_way_to_start_a_python_and_it_leaves_the_current_folder_out() -> None:
    starts = re.compile(r"sys\.executable,|[\"']-m[\"']|multiprocessing")
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert [file.name for file in files if starts.search(file.read_text())] == ["child_process.py"]
