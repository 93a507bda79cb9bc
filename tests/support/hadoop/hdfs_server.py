"""A real HDFS on this machine for tests: a name node and a data node in one JVM, on free ports.

`make test-setup` fetches its jars; a test that finds none fetches them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.repository import ROOT
from tiering.cli.fluss_server.jars import ICEBERG_PLUGIN_JARS, SERVER_JARS, plugins_folder, server_folder
from tiering.cli.fluss_server.java_process import JavaProcess
from tiering.cli.maven_jars import MavenJar, fetch_jars
from tiering.errors import SetupError

JARS = (
    MavenJar(
        "org.apache.hadoop",
        "hadoop-client-minicluster",
        "3.3.6",
        sha256="d646aee592187c5c360bc66f5710d242f16b04e9ad6dadbebd85283677c7687e",
    ),
    MavenJar(
        "junit", "junit", "4.13.2", sha256="8e495b634469d64fb8acfa3495a065cbacc8a0fff55ce1e31007be4c16dc57d3"
    ),  # its cluster checks with it
    MavenJar(
        "ch.qos.reload4j", "reload4j", "1.2.22", sha256="222f90d3e69541218ef6e70547749d693bd4c1846817e5bd7949b3e28950f99f"
    ),  # and sets levels of log4j 1
)
FOLDER = ROOT / "tests" / "support" / "hadoop" / "target"
READY_SECONDS = 120.0
_MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"


def class_path() -> str:
    """For `java -cp`: the rest is what a Fluss server and its plugin for Iceberg have. Fetches the jars that are not there.

    Raises SetupError if that fails, or a jar of the server was not fetched.
    """
    if not all((FOLDER / jar.file_name).is_file() for jar in JARS):
        fetch_jars(FOLDER, JARS)
    plugin = [plugins_folder() / "iceberg" / jar.file_name for jar in ICEBERG_PLUGIN_JARS if jar.group != "org.apache.fluss"]
    server = [server_folder() / jar.file_name for jar in SERVER_JARS if jar.group != "org.apache.fluss"]
    for path in (*plugin, *server):
        if not path.is_file():
            raise SetupError(f"{path.name}, which an HDFS for tests needs, is not in {path.parent}", hint="Run ./setup.sh.")
    return ":".join(str(path) for path in (*(FOLDER / jar.file_name for jar in JARS), *plugin, *server))


@contextmanager
def local_hdfs(folder: Path) -> Iterator[str]:
    """`127.0.0.1:PORT` of a name node with one data node. Everything that they write is in `folder`; stopped by pid."""
    details = folder / "details.json"
    arguments = ("-format", "-datanodes", "1", "-writeDetails", str(details))
    process = JavaProcess(class_path(), _MAIN, arguments, folder / "hdfs.log", "256m", {})
    process.start()
    try:
        yield f"127.0.0.1:{_port(process, details)}"
    finally:
        process.stop()


def _port(process: JavaProcess, details: Path) -> int:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        process.check_running()
        try:
            return int(json.loads(details.read_text())["namenode_port"])
        except (OSError, ValueError, KeyError) as error:
            if time.monotonic() > deadline:
                raise SetupError(f"HDFS was not ready after {READY_SECONDS:g} s: {process.log_tail()}") from error
        time.sleep(0.1)


if __name__ == "__main__":
    class_path()
    sys.exit(0)
