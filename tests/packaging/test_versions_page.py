"""The page of versions says what the locked packages and the plugin's build have."""

from __future__ import annotations

import re

from support.repository import ROOT
from tiering.cli.fluss_server.jars import FLUSS_VERSION
from tiering.cli.spark.jars import ICEBERG_AWS_BUNDLE, ICEBERG_RUNTIME, ICEBERG_RUNTIMES, POSTGRESQL_JDBC, SPARK_JARS, SQLITE_JDBC

PACKAGES = {
    "Spark (PySpark)": "pyspark",
    "PyIceberg": "pyiceberg",
    "pypaimon": "pypaimon",
    "DuckDB": "duckdb",
    "PyArrow": "pyarrow",
    "pandas": "pandas",
    "gRPC (Python)": "grpcio",
    "pyfluss": "pyfluss",
}
PROPERTIES = {"gRPC (plugin)": "grpc.version", "Protocol Buffers (plugin)": "protobuf.version"}


def versions_on_the_page() -> dict[str, str]:
    """By part, of the page's first table."""
    parts, _, _ = (ROOT / "docs" / "versions.md").read_text().partition("\n## ")
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|", parts, re.MULTILINE)
    return {part: version for part, version in rows if part not in ("part", "---")}


def test_each_version_is_the_one_that_is_used() -> None:
    lock, pom = (ROOT / "requirements.lock").read_text(), (ROOT / "catalog" / "pom.xml").read_text()
    used = {part: re.findall(rf"^{name}==(\S+)", lock, re.MULTILINE)[0] for part, name in PACKAGES.items()}
    used |= {part: re.findall(rf"<{re.escape(name)}>(\S+)</", pom)[0] for part, name in PROPERTIES.items()}
    used["Spark, for [fresh reads](fresh-reads.md)"] = used["Spark (PySpark)"]
    used["Iceberg's Spark runtime"] = ICEBERG_RUNTIME.version
    used["PostgreSQL JDBC, in Spark"] = POSTGRESQL_JDBC.version
    used["SQLite JDBC, in Spark"] = SQLITE_JDBC.version
    used["Iceberg's AWS bundle, in Spark"] = ICEBERG_AWS_BUNDLE.version
    used["PostgreSQL, servers"] = re.findall(r"PostgreSQL (\d+) is what the tests run", (ROOT / "docs" / "state.md").read_text())[0]
    used["Apache Fluss, servers"] = FLUSS_VERSION
    used["Java of drivers and executors"] = re.findall(r"<maven.compiler.release>(\d+)<", pom)[0]
    used["Python"] = re.findall(r'requires-python = ">=([\d.]+),', (ROOT / "pyproject.toml").read_text())[0]
    assert versions_on_the_page() == used


def test_each_jar_that_spark_gets_has_a_row() -> None:
    versions = set(versions_on_the_page().values())
    assert [jar.file_name for jar in (*SPARK_JARS, ICEBERG_AWS_BUNDLE) if jar.version not in versions] == []


def test_the_page_of_clients_names_icebergs_runtime_of_each_spark() -> None:
    page = (ROOT / "docs" / "connect.md").read_text()
    assert [jar for jar in ICEBERG_RUNTIMES.values() if f"`{jar.artifact}:{jar.version}`" not in page] == []
