"""The source distribution and the wheel are whole: a wheel built from the sdist alone runs a round far from the repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.repository import ROOT
from support.running.processes import Process

UV = Path(sys.executable).parent / "uv"
JARS = {"tiering/jars/lakeward-spark-plugin.jar", "tiering/jars/lakeward-spark-plugin-3.5.jar"}
PACKAGES = {"tiering", "sys_tables"}
SPARK_MODULE = "pyspark_lakeward.py"
"""The module by which Spark finds the data source. The build moves it to the top, where Spark looks."""
STUB_ENDINGS = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
ROWS = 300
TEST_MODULE = re.compile(
    r"(^|/)(tests?|conftest|testing|fixtures?|test_\w+|\w+_test|memory_(store|cluster|coordinator|lake)|sql_examples)(/|\.py$)"
)
TEST_IMPORT = re.compile(r"^\s*(import|from) (pytest|hypothesis|unittest|support|tests|bench)\b", re.MULTILINE)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made from this repository."""
    folder = tmp_path_factory.mktemp("sdist")
    build("--sdist", ROOT, folder)
    [archive] = folder.glob("*.tar.gz")
    return archive


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made from the sdist: what is in the repository but not in there cannot help, and the stubs here stay untouched."""
    folder = tmp_path_factory.mktemp("wheel")
    build("--wheel", sdist, folder)
    [built] = folder.glob("*.whl")
    return built


def build(kind: str, source: Path, target: Path) -> None:
    run(UV, "build", kind, "--no-build-isolation", "--offline", "--python", sys.executable, "--out-dir", target, source)


def run(*command: str | Path) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel and the locked dependencies, but without the editable install."""
    root = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(root, symlinks=True)
    run(UV, "pip", "install", "--offline", "--no-deps", "--python", root / "bin" / "python", wheel)
    [packages] = root.glob("lib/python*/site-packages")
    # A path on a .pth line is not searched for .pth files itself, and those are what makes an install editable.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return root / "bin"


@pytest.fixture
def service(installed: Path, tmp_path: Path) -> Iterator[Process]:
    """`lakeward up` from the wheel; every round is a Spark job, so that executors' workers import it too."""
    options = ("--data", "data", "--port", "0", "--master", "local[1]", "--inline-round-bytes", "0")
    process = lakeward(installed, tmp_path, "up", *options)
    try:
        yield process
    finally:
        process.close()


def lakeward(installed: Path, cwd: Path, *arguments: str) -> Process:
    here = {"PYTHONPATH": "", "VIRTUAL_ENV": "", "PATH": f"{installed}{os.pathsep}{os.environ['PATH']}"}
    return Process(*arguments, log=cwd / f"{arguments[0]}.log", env=here, program=(str(installed / "lakeward"),), cwd=cwd)


def test_the_sdist_has_the_sources_and_nothing_else(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {name.partition("/")[0] for name in names if "/" in name} == PACKAGES | {"catalog", "docs", "proto", "sql_examples"}
    assert {"hatch_build.py", "LICENSE", "NOTICE", "requirements.lock", "catalog/pom.xml", "proto/tiering/rpc/v1/common.proto"} <= names
    made_by_the_build = ("catalog/target", "sys_tables/console/static/vendor/")
    assert [name for name in names if name.endswith((*STUB_ENDINGS, ".jar")) or name.startswith(made_by_the_build)] == []


def test_the_wheel_has_packages_stubs_jars_and_licence_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert min(archive.getinfo(jar).file_size for jar in JARS) > 1_000_000
    [info] = {name.partition("/")[0] for name in names} - PACKAGES - {SPARK_MODULE}
    assert info.endswith(".dist-info")
    assert {f"{info}/licenses/LICENSE", f"{info}/licenses/NOTICE"} <= names
    protos = [path.relative_to(ROOT / "proto") for path in (ROOT / "proto").rglob("*.proto")]
    stubs = {str(proto.with_suffix("")) + ending for proto in protos for ending in STUB_ENDINGS}
    assert stubs <= names
    assert {name for name in names if name.endswith(STUB_ENDINGS)} == stubs
    modules = {str(path.relative_to(ROOT)) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == (modules - {f"tiering/union_read/{SPARK_MODULE}"}) | {SPARK_MODULE}
    pages = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "sys_tables/console").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"console.css", "htmx.min.js", "htmx.LICENSE", "uPlot.iife.min.js", "uPlot.LICENSE"} <= {Path(page).name for page in pages}
    assert pages <= names
    shipped = {
        f"sys_tables/console/shipped/{path.relative_to(ROOT)}"
        for folder in ("docs", "sql_examples")
        for path in (ROOT / folder).iterdir()
        if path.is_file()
    }
    assert {name for name in names if "/shipped/" in name} == shipped
    assert {name for name in names if name.endswith(".jar")} == JARS  # `lakeward fetch-jars` fetches the jars of other projects


def test_the_wheel_has_no_test_code(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        modules = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")}
    assert [name for name in modules if TEST_MODULE.search(name)] == []
    assert [name for name, source in modules.items() if TEST_IMPORT.search(source)] == []


def test_the_installed_wheel_runs_a_round_far_from_the_repository(installed: Path, service: Process, tmp_path: Path) -> None:
    uri = service.wait_ready()
    (tmp_path / "places.csv").write_text("id,city\n" + "".join(f"{number},city {number}\n" for number in range(ROWS)))

    def output_of(*arguments: str) -> str:
        process = lakeward(installed, tmp_path, *arguments, "--uri", uri)
        assert process.wait_ended(120) == 0, process.output()
        return process.output()

    output_of("ingest", "travel.places", "places.csv", "--freshness", "1 h")
    output_of("tier", "travel.places", "--format", "json")  # its round, or that of the backlog, which may be the earlier one
    [status] = json.loads(output_of("status", "travel.places", "--format", "json"))
    assert (status["lake_records"], status["pending_records"]) == (ROWS, 0)
    rounds = "SELECT records_written FROM sys.tiering_rounds WHERE state = 'SUCCEEDED'"
    assert json.loads(output_of("sql", "--engine", "duckdb", rounds, "--format", "json")) == [{"records_written": ROWS}]
    properties = dict(line.split(maxsplit=1) for line in output_of("spark-conf").splitlines())
    jar = Path(properties["spark.driver.extraClassPath"])
    assert jar.is_file()
    assert jar.is_relative_to(installed.parent)
    origin = run(installed / "python", "-c", "import tiering, sys_tables; print(tiering.__file__, sys_tables.__file__)")
    assert all(Path(path).is_relative_to(installed.parent) for path in origin.split())
