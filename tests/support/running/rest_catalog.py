"""A REST catalog for tests: Iceberg's own handlers and its JdbcCatalog behind the JDK's HTTP server, from the jars that Spark has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from support.repository import ROOT
from tiering.cli.spark.jars import ICEBERG_RUNTIME, SQLITE_JDBC, jar_path
from tiering.cli.spark.java import require_java

SOURCE = ROOT / "tests" / "support" / "rest_catalog" / "org" / "apache" / "iceberg" / "rest" / "RestCatalogServer.java"
MAIN = "org.apache.iceberg.rest.RestCatalogServer"


@contextmanager
def rest_catalog(folder: Path, *, overwrites: bool = False) -> Iterator[str]:
    """Yields the URI of a catalog with database and warehouse in `folder`, and stops it afterwards.

    `overwrites`: it can overwrite a registered table.
    """
    java = require_java()
    of_spark = Path(pyspark.__file__).parent / "jars"
    [hadoop] = of_spark.glob("hadoop-client-api-*.jar")
    compiler = [str(java.with_name("javac")), "-nowarn", "-cp", f"{jar_path(ICEBERG_RUNTIME)}:{hadoop}"]
    subprocess.run([*compiler, "-d", str(folder / "classes"), str(SOURCE)], check=True)
    class_path = f"{folder / 'classes'}:{jar_path(ICEBERG_RUNTIME)}:{jar_path(SQLITE_JDBC)}:{of_spark}/*"
    command = [str(java), "-XX:TieredStopAtLevel=1", "-cp", class_path, MAIN, f"jdbc:sqlite:{folder / 'catalog.db'}", str(folder / "lake")]
    command += ["overwrite"] * overwrites
    with (folder / "rest.log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        assert port, (folder / "rest.log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)
