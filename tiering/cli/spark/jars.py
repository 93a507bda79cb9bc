"""The jars that Spark needs to read the lake, and their paths.

`lakeward fetch-jars` downloads them once; `make setup` runs it. Commands that start Spark give it these paths.
"""

from __future__ import annotations

from pathlib import Path

from tiering.cli.maven_jars import MavenJar, jars_folder
from tiering.errors import SetupError

ICEBERG_RUNTIME = MavenJar(
    "org.apache.iceberg",
    "iceberg-spark-runtime-4.1_2.13",
    "1.12.0",
    sha256="3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
)
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
SPARK_JARS = (ICEBERG_RUNTIME, SQLITE_JDBC, POSTGRESQL_JDBC)


def jar_path(jar: MavenJar) -> Path:
    """Returns the path of a downloaded jar. Raises SetupError if it is missing."""
    path = jars_folder() / jar.file_name
    if not path.is_file():
        fetch = "lakeward fetch-jars --s3" if jar is ICEBERG_AWS_BUNDLE else "lakeward fetch-jars"
        raise SetupError(
            f"the jar {jar.file_name}, which Spark needs to read the lake, is not in {path.parent}",
            hint=f"Run `{fetch}` once, or let Spark download it: `lakeward spark-conf --lake-jars packages`.",
        )
    return path
