"""NOTICE names every work of others that the plugin's jar carries, by the version that is in it."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from support.repository import ROOT

FROM_SPARK = ("spark-", "scala-library", "arrow-", "slf4j-api", "antlr4-runtime")
"""Compiled against; Spark brings them."""
OF_TESTS = ("junit-", "opentest4j", "apiguardian-api")
JARS = [ROOT / "tiering" / "jars" / name for name in ("lakeward-spark-plugin.jar", "lakeward-spark-plugin-3.5.jar")]
FILE = re.compile(r"^[0-9a-f]{64}  (?P<name>[a-z][a-z0-9_-]*?)-(?P<version>\d\S*)\.jar$", re.MULTILINE)
GRPC = re.compile(r"^  grpc-api.*\n +(?P<version>\S+)", re.MULTILINE)


def carried() -> set[tuple[str, str]]:
    """Name and version of each work in the jar."""
    sums = (ROOT / "catalog" / "dependencies.sha256").read_text()
    files = {(file["name"], file["version"]) for file in FILE.finditer(sums)}
    return {(name, version) for name, version in files if not name.startswith((*FROM_SPARK, *OF_TESTS))}


def test_each_work_in_the_jar_is_named_with_its_version() -> None:
    notice = (ROOT / "NOTICE").read_text()
    grpc = GRPC.search(notice)
    assert grpc is not None
    line = notice[grpc.start() : grpc.end()].splitlines()[0]
    listed = {(name if name.startswith("grpc") else f"grpc{name}", grpc["version"]) for name in line.strip().split(", ")}
    listed |= {(words[0], words[1]) for words in map(str.split, notice.splitlines()) if len(words) > 3}
    assert len(carried()) > 10
    assert carried() - listed == set()


@pytest.mark.parametrize("file", JARS, ids=lambda file: file.name)
def test_the_jar_carries_notice_and_licence(file: Path) -> None:
    with zipfile.ZipFile(file) as jar:
        assert jar.read("META-INF/NOTICE.lakeward").decode() == (ROOT / "NOTICE").read_text()
        assert jar.read("META-INF/LICENSE.lakeward").decode() == (ROOT / "LICENSE").read_text()
