"""Other versions of Spark, each in a folder below `.venv/sparks`. `make test-setup` fetches them, or else the first test that needs them.

A Spark comes as the source archive of PySpark, which has its jars, and is unpacked and not installed: nothing is built. Maven Central has
no jars of Spark 4.3. What no statement of the tests needs is left out: half of the bytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyspark

from support.repository import ROOT
from support.spark.class_archive import QUICK_JVM
from tiering.cli.maven_jars import fetch_jars, jars_folder
from tiering.cli.spark.jars import ICEBERG_RUNTIMES, SparkVersion
from tiering.errors import SetupError
from tiering.files.folder_lock import take_lock

SPARKS = ROOT / ".venv" / "sparks"
UNUSED_FOLDERS = ("deps/data/", "deps/examples/", "deps/licenses/", "pyspark/pandas/")
UNUSED_JARS = (
    "breeze",
    "derby",
    "hive-exec",
    "hive-metastore",
    "kubernetes",
    "rocksdbjni",
    "scala-compiler",
    "spark-connect",
    "spark-mllib",
    "spire",
)


@dataclass(frozen=True)
class Installation:
    """One version of Spark. `sha256`: of its archive, None for the locked version, which is installed."""

    version: str
    sha256: str | None

    @property
    def spark(self) -> SparkVersion:
        return SparkVersion(".".join(self.version.split(".")[:2]))

    @property
    def has_iceberg(self) -> bool:
        """Whether Iceberg publishes a runtime for this Spark."""
        return self.spark in ICEBERG_RUNTIMES

    @property
    def folder(self) -> Path:
        return SPARKS / self.version

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables with which Python starts this Spark, and its executors find Lakeward."""
        variables = {**os.environ, "SPARK_SUBMIT_OPTS": QUICK_JVM, "PYSPARK_PYTHON": sys.executable}
        if self.sha256 is None:
            return variables
        [py4j] = (self.folder / "lib").glob("py4j-*.zip")
        return {**variables, "SPARK_HOME": str(self.folder / "deps"), "PYTHONPATH": os.pathsep.join((str(self.folder), str(py4j)))}

    def fetch(self) -> None:
        """Fetches what is not there. Of two that do, the second waits. Raises SetupError."""
        if self.sha256 is None:
            return
        SPARKS.mkdir(parents=True, exist_ok=True)
        if self.has_iceberg:
            fetch_jars(jars_folder(), [ICEBERG_RUNTIMES[self.spark]])
        descriptor = os.open(SPARKS, os.O_RDONLY)
        try:
            take_lock(descriptor, wait=True)
            if not self.folder.is_dir():
                print(f"setup: fetching Spark {self.version} for tests", file=sys.stderr)
                self._download()
        finally:
            os.close(descriptor)

    def _download(self) -> None:
        with TemporaryDirectory(prefix=".fetch-", dir=SPARKS) as name:
            requirement = Path(name) / "requirements.txt"
            requirement.write_text(f"pyspark=={self.version} --hash=sha256:{self.sha256}\n")
            options = ("-q", "--disable-pip-version-check", "--no-cache-dir", "--no-deps", "--no-binary", ":all:", "--no-build-isolation")
            command = (sys.executable, "-m", "pip", "download", *options, "--require-hashes", "-d", name, "-r", str(requirement))
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            if ended.returncode:
                raise SetupError(
                    f"Spark {self.version} could not be fetched for tests: {ended.stderr.strip()[-1_000:]}",
                    hint="Run `make test-setup` where a package index can be reached.",
                )
            [archive] = Path(name).glob("pyspark-*.tar.gz")
            with tarfile.open(archive) as files:
                files.extractall(name, members=_used(files), filter="data")
            shutil.move(Path(name) / archive.name.removesuffix(".tar.gz"), self.folder)


def _used(files: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yields the members of an archive without those that no statement of the tests needs."""
    for member in files:
        _, _, path = member.name.partition("/")
        if not path.startswith((*UNUSED_FOLDERS, *(f"deps/jars/{jar}" for jar in UNUSED_JARS))):
            yield member


REFERENCE = Installation(pyspark.__version__, None)
"""The locked version, with which the answers of the others are compared."""
OTHERS = (
    Installation("3.5.9", "ea27adc39ddac9413b8951e45aa748cbed6c785971b81386efc41938f6243d93"),
    Installation("4.0.5", "a0d44b0e7faf0458ad83b7aa664e7ed8b96beed8a55d66ce3b0dfac2309dfca6"),
    Installation("4.2.1", "d79b7c8ee41e66a9202fe6f600ca90b931ca571ae9dbdf31c58d2672e5102da0"),
    Installation("4.3.0", "e8c517948eff7088a7aa07449aa8eafa4a15a8d50319de2525a6fd26622476c6"),
)

if __name__ == "__main__":
    for installation in OTHERS:
        installation.fetch()
