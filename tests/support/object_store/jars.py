"""The jars of the servers: fetched by Maven, with all that they need, by `./setup.sh all-tests`; who finds none fetches them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from support.repository import ROOT
from tiering.cli.maven_jars import checksum
from tiering.errors import SetupError
from tiering.files.folder_lock import take_lock

HOME = ROOT / "tests" / "support" / "object_store"
SERVERS = ("s3proxy", "iceberg_rest")
"""Each a folder with a `pom.xml`, and the SHA-256 of every jar that it brings."""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies"


def class_path(server: str) -> str:
    """For `java -cp`. Fetches the jars that are not there; of two that do, the second waits. Raises SetupError."""
    jars = HOME / "target" / server
    sums = _sums(HOME / server / "dependencies.sha256")
    if not _are_there(jars, sums):
        _fetch(server, jars, sums)
    return ":".join(str(jars / name) for name in sums)


def _sums(file: Path) -> dict[str, str]:
    """SHA-256 by file name."""
    pairs = (line.split() for line in file.read_text().splitlines() if not line.startswith("#"))
    return {name: checksum for checksum, name in pairs}


def _are_there(jars: Path, sums: Mapping[str, str]) -> bool:
    return all((jars / name).is_file() for name in sums)


def _fetch(server: str, jars: Path, sums: Mapping[str, str]) -> None:
    jars.parent.mkdir(parents=True, exist_ok=True)
    held = os.open(jars.parent, os.O_RDONLY)
    try:
        take_lock(held, wait=True)
        if _are_there(jars, sums):
            return
        with TemporaryDirectory(prefix=".fetch-", dir=jars.parent) as name:
            fresh = Path(name) / "jars"
            # A copy: Maven may not write beside the committed file.
            shutil.copy(HOME / server / "pom.xml", name)
            command = ["mvn", "-C", "-q", "-B", _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
            ended = subprocess.run(command, cwd=name, capture_output=True, text=True, check=False)
            if ended.returncode:
                raise SetupError(f"Maven could not fetch the jars of {server}: {ended.stdout[-1_000:]}")
            wrong = sorted(jar for jar, expected in sums.items() if checksum(fresh / jar) != expected)
            unknown = sorted(jar.name for jar in fresh.iterdir() if jar.name not in sums)
            if wrong or unknown:
                raise SetupError(f"of {server}, these jars are missing or not the ones expected: {wrong}; these are unknown: {unknown}")
            shutil.rmtree(jars, ignore_errors=True)
            fresh.rename(jars)
    finally:
        os.close(held)


if __name__ == "__main__":
    for server_name in SERVERS:
        class_path(server_name)
    sys.exit(0)
