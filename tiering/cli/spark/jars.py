"""The jars that Spark needs to read the lake, for each version of Spark, and their paths.

`lakeward fetch-jars` downloads them once; `make setup` runs it. Commands that start Spark give it these paths.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from tiering.cli.maven_jars import MavenJar, jars_folder
from tiering.errors import InvalidArgument, SetupError


class SparkVersion(StrEnum):
    """Versions of Spark that the plugin works with, by their first two numbers. That of 3.5 is built with Scala 2.12."""

    V3_5 = "3.5"
    V4_0 = "4.0"
    V4_1 = "4.1"
    V4_2 = "4.2"
    V4_3 = "4.3"


INSTALLED_SPARK = SparkVersion.V4_1
"""The version of the PySpark that Lakeward installs."""
ICEBERG_RUNTIME = MavenJar(
    "org.apache.iceberg",
    "iceberg-spark-runtime-4.1_2.13",
    "1.12.0",
    sha256="3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
)
ICEBERG_RUNTIMES = {
    SparkVersion.V3_5: MavenJar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-3.5_2.12",
        "1.11.0",
        sha256="94b8e36fc329f0293d44ba9e01b784a56e9501affec1842d898144c51f6e486a",
    ),
    SparkVersion.V4_0: MavenJar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.0_2.13",
        "1.11.0",
        sha256="63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc",
    ),
    INSTALLED_SPARK: ICEBERG_RUNTIME,
}
"""Iceberg publishes no runtime for the other versions."""
SQLITE_JDBC = MavenJar("org.xerial", "sqlite-jdbc", "3.49.1.0", sha256="5c8609d2ca341deb8c6f71778974b5ba4995c7d32d7c7c89d9392a3e72c39291")
POSTGRESQL_JDBC = MavenJar(
    "org.postgresql", "postgresql", "42.7.4", sha256="188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e"
)
ICEBERG_AWS_BUNDLE = MavenJar(
    "org.apache.iceberg",
    "iceberg-aws-bundle",
    ICEBERG_RUNTIME.version,
    sha256="dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
)
"""Amazon's client, for a lake in S3. Its version has to be that of the Iceberg runtime: another version lacks classes."""
_AWS_BUNDLES = (
    ICEBERG_AWS_BUNDLE,
    MavenJar(
        "org.apache.iceberg", "iceberg-aws-bundle", "1.11.0", sha256="38f01da7e96850cdd05e6616d758b77b43314b712a8808e3f9a824d56976162f"
    ),
)
SPARK_JARS = (ICEBERG_RUNTIME, SQLITE_JDBC, POSTGRESQL_JDBC)


def iceberg_runtime(spark: SparkVersion) -> MavenJar:
    """Returns Iceberg's runtime for a version of Spark. Raises InvalidArgument if none is published."""
    if spark not in ICEBERG_RUNTIMES:
        raise InvalidArgument(
            f"Iceberg publishes no runtime for Spark {spark}",
            hint="Print the properties without --lake: executors then read lake and log with the Python package lakeward.",
        )
    return ICEBERG_RUNTIMES[spark]


def aws_bundle(spark: SparkVersion) -> MavenJar:
    """Returns Amazon's client for the Iceberg runtime of a version of Spark. Raises InvalidArgument if there is no runtime."""
    version = iceberg_runtime(spark).version
    return next(jar for jar in _AWS_BUNDLES if jar.version == version)


def jar_path(jar: MavenJar, spark: SparkVersion = INSTALLED_SPARK) -> Path:
    """Returns the path of a downloaded jar, which is for `spark`. Raises SetupError if it is missing."""
    path = jars_folder() / jar.file_name
    if not path.is_file():
        options = [] if spark is INSTALLED_SPARK else [f"--spark {spark}"]
        options += ["--s3"] if jar.artifact == ICEBERG_AWS_BUNDLE.artifact else []
        raise SetupError(
            f"the jar {jar.file_name}, which Spark needs to read the lake, is not in {path.parent}",
            hint=f"Run `{' '.join(['lakeward fetch-jars', *options])}` once, or let Spark download it: "
            "`lakeward spark-conf --lake-jars packages`.",
        )
    return path
