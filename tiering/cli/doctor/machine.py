"""Checks of this machine: Python and its packages, Java, the plugin, Spark, and the folders that Lakeward writes to. Creates nothing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tiering.cli.doctor.findings import Finding, fail, ok, warn
from tiering.cli.processes.data_folder import FORMAT_VERSION, PARTS, check_version
from tiering.cli.spark.java import require_java
from tiering.cli.spark.properties import plugin_jar
from tiering.cli.spark.reader import open_reader_spark
from tiering.extras import EXTRAS, wheel_name

PACKAGE = "lakeward"
EXECUTOR_MODULE = "tiering.union_read.spark_tasks"
"""The module that executors import for fresh reads."""
PYTHON_SECONDS = 60
"""Time limit for the start of another Python, on a machine on which much else runs."""
CATALOG_CLASS_FILE = "io/lakeward/spark/LakewardCatalog.class"
ENOUGH_BYTES = 2 << 30
"""With less free space, a busy table fills the disk within hours."""
TOO_LITTLE_BYTES = 100 << 20
"""With less free space, the next round may fail."""


def python() -> Iterator[Finding]:
    """Yields whether this Python and its packages fit the requirements of the wheel."""
    try:
        bounds, requirements = str(metadata(PACKAGE)["Requires-Python"] or ""), requires(PACKAGE) or []
    except PackageNotFoundError:
        yield warn(
            "packages",
            f"the package {PACKAGE} is not installed in {sys.prefix}",
            f"Install {wheel_name()} (docs/deploy.md), or run `make setup`.",
        )
        return
    have = f"{PACKAGE} {version(PACKAGE)} on Python {platform.python_version()} in {sys.prefix}"
    if SpecifierSet(bounds).contains(platform.python_version(), prereleases=True):
        yield ok("python", have)
    else:
        yield fail("python", have, f"Use a Python with a version {bounds}.")
    wrong = misfits(requirements, installed)
    for needed, present in wrong:
        state = "is not installed" if present is None else f"is {present}"
        requirement = f"{needed.name}{needed.specifier}"
        yield fail("packages", f"{needed.name} {state}; {PACKAGE} needs {requirement}", f"pip install '{requirement}'")
    if not wrong:
        left_out = sorted({extra for module, extra in EXTRAS.items() if find_spec(module) is None})
        yield ok(
            "packages",
            "all are installed, in supported versions" + (f"; not installed: the extras {', '.join(left_out)}" if left_out else ""),
        )


def misfits(requirements: Iterable[str], version_of: Callable[[str], str | None]) -> list[tuple[Requirement, str | None]]:
    """Returns the requirements that no installed package fits, with the installed version. Requirements of extras are ignored."""
    needed = [requirement for requirement in map(Requirement, requirements) if requirement.marker is None]
    return [
        (requirement, have)
        for requirement in needed
        if (have := version_of(requirement.name)) is None or not requirement.specifier.contains(have, prereleases=True)
    ]


def installed(name: str) -> str | None:
    """Returns the version of a package in this environment, or None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def java() -> Iterator[Finding]:
    """Yields the Java that Spark uses. Raises SetupError without Java."""
    command = require_java()
    answer = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    yield ok("java", f"{answer.splitlines()[0]} at {command}")


def plugin() -> Iterator[Finding]:
    """Yields whether the jar of the Spark plugin is complete. Raises SetupError if the package has no jar."""
    jar = plugin_jar()
    try:
        with zipfile.ZipFile(jar) as opened:
            whole = CATALOG_CLASS_FILE in opened.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        yield fail("plugin", f"{jar} cannot be read: {error}", "Install the wheel again, or run `make setup`.")
        return
    if whole:
        yield ok("plugin", str(jar))
    else:
        yield fail("plugin", f"{jar} is not the Spark plugin", "Install the wheel again, or run `make setup`.")


def spark(environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Yields the version of PySpark, and variables of the environment that select another Spark or another Python."""
    have = installed("pyspark")
    if have is None:
        yield fail("spark", "PySpark is not installed", f"Install {wheel_name()} again, which includes it.")
        return
    home = environment.get("SPARK_HOME")
    if home is None:
        yield ok("spark", f"PySpark {have}")
    else:
        yield _other_spark(Path(home), have)
    other = environment.get("PYSPARK_PYTHON")
    if other and Path(shutil.which(other) or other).resolve() != Path(sys.executable).resolve():
        yield _other_python(other, environment)


def _other_python(program: str, environment: Mapping[str, str]) -> Finding:
    """Returns the finding on the Python that executors run. Fresh reads need the package there, in this version."""
    reads = f"import {EXECUTOR_MODULE}; from importlib.metadata import version; print(version({PACKAGE!r}))"
    safe = {**os.environ, **environment, "PYTHONSAFEPATH": "1"}
    try:
        ended = subprocess.run(
            [program, "-c", reads], capture_output=True, text=True, timeout=PYTHON_SECONDS, check=False, env=safe, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = f"which cannot be run: {error}"
    else:
        have, needed = ended.stdout.strip(), installed(PACKAGE)
        if ended.returncode == 0 and have == needed:
            return ok("spark", f"executors run PYSPARK_PYTHON={program}, which has {PACKAGE} {have}")
        problem = f"which has {PACKAGE} {have}, not {needed}" if ended.returncode == 0 else f"which does not have the package {PACKAGE}"
    return warn(
        "spark",
        f"executors run PYSPARK_PYTHON={program}, {problem}",
        f"Unset PYSPARK_PYTHON, or install the package {PACKAGE} there in this version. For fresh reads the catalog option `python` names "
        "another Python: `lakeward spark-conf` prints it.",
    )


def _other_spark(home: Path, have: str) -> Finding:
    """Returns the finding on SPARK_HOME. The names of Spark's jars contain its version."""
    cores = sorted(home.glob("jars/spark-core_*.jar"))
    if not cores:
        return fail("spark", f"SPARK_HOME={home} contains no Spark", "Unset SPARK_HOME: PySpark includes Spark.")
    spark_version = cores[0].stem.rpartition("-")[2]
    if spark_version.split(".")[:2] != have.split(".")[:2]:
        return fail(
            "spark",
            f"SPARK_HOME={home} is Spark {spark_version}, PySpark is {have}",
            "Unset SPARK_HOME, or name a Spark of the version of PySpark.",
        )
    return ok("spark", f"PySpark {have} with Spark {spark_version} of SPARK_HOME={home}")


def spark_reads(uri: str) -> Iterator[Finding]:
    """Starts Spark and yields whether it reads a system table through the plugin. Raises Spark's errors."""
    session = open_reader_spark(uri, "lakeward doctor", master="local[1]")
    try:
        count = session.sql("SELECT count(*) FROM fluss.sys.tables").collect()[0][0]
    finally:
        session.stop()
    yield ok("sql", f"Spark {version('pyspark')} reads sys.tables through the plugin: {count} table{'' if count == 1 else 's'}")


def data_folder(path: Path) -> Iterator[Finding]:
    """Yields whether the data folder can be used. Raises SetupError for a folder of another program or version."""
    root = path.expanduser().resolve()
    if not root.exists():
        yield _where_it_would_be(root)
        return
    if not root.is_dir():
        yield fail("data folder", f"{root} is not a folder", "Name another folder with --data.")
        return
    check_version(root)
    if root.stat().st_uid != os.geteuid():
        yield fail("data folder", f"{root} belongs to another user", "Run Lakeward as its owner, or name another folder with --data.")
        return
    locked = [str(part) for part in (root, *(root / name for name in PARTS)) if part.exists() and not _writable(part)]
    if locked:
        yield fail(
            "data folder", f"cannot be written: {', '.join(locked)}", "Give this user write permission, or name another folder with --data."
        )
    else:
        content = f"format version {FORMAT_VERSION}" if (root / "VERSION").exists() else "empty"
        yield ok("data folder", f"{root}, {content}")
    yield space("data folder", root)


def temporary_folder() -> Iterator[Finding]:
    """Yields the free space for `lakeward ingest` and for Spark's spilled data. Raises FileNotFoundError without a writable folder."""
    folder = Path(tempfile.gettempdir())
    yield space("temporary files", folder)


def space(check: str, folder: Path, enough: int = ENOUGH_BYTES, too_little: int = TOO_LITTLE_BYTES) -> Finding:
    """Returns the free space on the disk of `folder`."""
    free = shutil.disk_usage(folder).free
    room = f"{free / (1 << 30):.1f} GiB free in {folder}"
    if free < too_little:
        return fail(check, room, "Free some space, or use another disk.")
    return warn(check, room, "Free some space soon.") if free < enough else ok(check, room)


def _where_it_would_be(root: Path) -> Finding:
    above = next(parent for parent in root.parents if parent.exists())
    if not above.is_dir() or not _writable(above):
        return fail("data folder", f"{root} does not exist and cannot be created in {above}", "Name another folder with --data.")
    return ok("data folder", f"{root} does not exist yet; `lakeward up` creates it")


def _writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)
