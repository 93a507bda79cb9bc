"""A compaction by Paimon itself, in a JVM."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.fluss_paimon.plugin import tiering_class_path
from tiering.cli.fluss_server.java_process import JVM_OPTIONS
from tiering.cli.spark.java import require_java
from tiering.model.tables import TablePath


def compact(warehouse: Path, table: TablePath) -> None:
    """Every bucket's files become one, in a snapshot of the kind COMPACT."""
    command = [str(require_java()), *JVM_OPTIONS, "-Xmx512m", "-cp", tiering_class_path(), "io.lakeward.testing.PaimonCompaction"]
    ended = subprocess.run([*command, str(warehouse), str(table)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
