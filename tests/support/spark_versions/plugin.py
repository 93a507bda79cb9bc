"""The plugin's jar for Spark 3.5, which no wheel has. `make test-setup` builds it, or else the first test that needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.repository import ROOT
from tiering.errors import SetupError
from tiering.files.folder_lock import take_lock

CATALOG = ROOT / "catalog"
JAR = CATALOG / "target" / "spark-3.5" / "lakeward-spark-plugin-3.5.jar"
EXTENSION = "io.lakeward.spark.LakewardExtensions"
"""The class that adds CALL to the SQL of Spark 3.5."""


def build_plugin_for_spark_35() -> None:
    """Builds the jar unless it is newer than its sources. Of two that build, the second waits. Raises SetupError."""
    JAR.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(JAR.parent, os.O_RDONLY)
    try:
        take_lock(descriptor, wait=True)
        if not JAR.exists() or JAR.stat().st_mtime < _newest_source():
            print("setup: building the plugin for Spark 3.5 for tests", file=sys.stderr)
            command = ("mvn", "-C", "-q", "-B", "-f", str(CATALOG / "pom.xml"), f"-Dpython={sys.executable}", "-Dspark3.5", "package")
            if subprocess.run(command, check=False).returncode:
                raise SetupError("the plugin for Spark 3.5 was not built", hint="Maven's message above names the cause.")
    finally:
        os.close(descriptor)


def _newest_source() -> float:
    """Returns the time of the last change of a file that the jar is built from."""
    sources = (CATALOG / "pom.xml", *(CATALOG / "src" / "main").rglob("*"), *(CATALOG / "src" / "spark35").rglob("*"), *_protos())
    return max(path.stat().st_mtime for path in sources if path.is_file())


def _protos() -> tuple[Path, ...]:
    return tuple((ROOT / "proto").rglob("*.proto"))
