"""What any Spark needs to see Lakeward, and the lake: the properties of `lakeward spark-conf` and `lake-conf`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote

from tiering.access.client_access import access_from_environment
from tiering.cli.maven_jars import MavenJar
from tiering.cli.spark.jars import ICEBERG_AWS_BUNDLE, ICEBERG_RUNTIME, POSTGRESQL_JDBC, SQLITE_JDBC, jar_path
from tiering.errors import InvalidArgument, SetupError
from tiering.lake.catalog_properties import CATALOG_NAME, FILESYSTEM
from tiering.model.names import CATALOG as CATALOG

LAKE_CATALOG = "lake"
CATALOG_CLASS = "io.lakeward.spark.LakewardCatalog"
SESSION_CATALOG = "spark_catalog"
SESSION_CATALOG_CLASS = "io.lakeward.spark.LakewardSessionCatalog"
_PYICEBERG_TO_SPARK_TYPE = {"sql": "jdbc", "rest": "rest", "hive": "hive", "glue": "glue", "hadoop": "hadoop"}
_DRIVERS = {"jdbc:sqlite": SQLITE_JDBC, "jdbc:postgresql": POSTGRESQL_JDBC}
_S3 = ("s3://", "s3a://")
_OBJECT_STORES = (*_S3, "gs://", "abfs://", "abfss://")


class LakeJars(StrEnum):
    """How a Spark gets the jars with which it reads the lake."""

    PATHS = "paths"
    """Files of this machine, which `lakeward fetch-jars` put there."""
    PACKAGES = "packages"
    """Coordinates; Spark fetches them from Maven Central at its first start."""


def plugin_jar() -> Path:
    """The catalog plugin inside the installed package. Raises SetupError if it was installed without."""
    import sys_tables

    jar = Path(sys_tables.__file__).parent / "plugin" / "lakeward-spark-plugin.jar"
    if not jar.exists():
        raise SetupError(f"the Spark plugin is missing: {jar}", hint="Run `make setup`, or install the wheel, which carries it.")
    return jar


def catalog_properties(uri: str, jar: Path, default: bool = False) -> dict[str, str]:
    """Catalog `fluss` for a Spark that can read `jar`; `default`: names without a catalog are looked up in it.

    The jar goes on the driver's class path: `spark.jars` comes too late for a default catalog (the session fails with
    ClassNotFoundException).
    """
    properties = {
        "spark.driver.extraClassPath": str(jar),
        f"spark.sql.catalog.{CATALOG}": CATALOG_CLASS,
        f"spark.sql.catalog.{CATALOG}.uri": uri,
    }
    return {**properties, "spark.sql.defaultCatalog": CATALOG} if default else properties


def access_properties() -> dict[str, str]:
    """What the catalog `fluss` shows the service, as files that this process names.

    The token that a service has put into its user's folder is not named: the plugin finds it by the uri, and a file that went with its
    service would hide that no service answers.
    """
    access, prefix = access_from_environment(), f"spark.sql.catalog.{CATALOG}."
    files = {"token-file": access.token_file, "tls.ca": access.tls_ca, "tls.cert": access.tls_cert, "tls.key": access.tls_key}
    return {prefix + name: str(file.absolute()) for name, file in files.items() if file is not None}


def session_catalog_properties(uri: str) -> dict[str, str]:
    """`sys` beside the databases of Spark's own catalog, which stays the default one. Needs the jar as the catalog `fluss` does."""
    return {f"spark.sql.catalog.{SESSION_CATALOG}": SESSION_CATALOG_CLASS, f"spark.sql.catalog.{SESSION_CATALOG}.uri": uri}


def catalog_lake_properties(lake: Mapping[str, str], jars: LakeJars = LakeJars.PATHS) -> dict[str, str]:
    """Catalog `lake`, named to the catalog `fluss` as where its data tables are read. `lake`: as pyiceberg takes them.

    Raises SetupError for a jar that was not fetched.
    """
    return {**lake_properties_for_spark(lake, jars), f"spark.sql.catalog.{CATALOG}.lake": lake_catalog_name(lake)}


def lake_catalog_name(lake: Mapping[str, str]) -> str:
    """What the lake's catalog is called: a SQL catalog has it in its rows, so Spark's has to have that name (DESIGN 12)."""
    return lake.get(CATALOG_NAME) or LAKE_CATALOG


def lake_properties_for_spark(properties: Mapping[str, str], jars: LakeJars = LakeJars.PATHS) -> dict[str, str]:
    """Iceberg catalog of Spark over the lake that pyiceberg opens with `properties`, named `lake_catalog_name`.

    Raises SetupError for a jar that was not fetched; InvalidArgument for a lake of Paimon tables.
    """
    kind = properties.get("type", "sql").lower()
    if kind == FILESYSTEM:
        raise InvalidArgument(
            "the lake's tables are Paimon's, and Spark 4 has no runtime for them that Lakeward could name",
            hint="Read them with `lakeward sql --engine duckdb`, or with pypaimon: `lakeward lake-conf` prints their warehouse.",
        )
    prefix = f"spark.sql.catalog.{lake_catalog_name(properties)}"
    spark_properties = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": _PYICEBERG_TO_SPARK_TYPE.get(kind, kind),
    }
    needed = [ICEBERG_RUNTIME]
    for name, value in properties.items():
        if name == "uri" and kind == "sql":
            spark_properties[f"{prefix}.uri"] = _jdbc_uri(value)
        elif name not in ("type", CATALOG_NAME):
            spark_properties[f"{prefix}.{name}"] = value
    if kind == "sql":
        # Else every JVM takes a lock on the SQLite file for ever; pyiceberg makes the tables. `jdbc.schema-version` is never named: Iceberg
        # finds V1, which pyiceberg makes, by itself, and with the property it alters the tables of a V0 catalog, which others made.
        spark_properties[f"{prefix}.jdbc.init-catalog-tables"] = "false"
        needed += [jar for scheme, jar in _DRIVERS.items() if spark_properties[f"{prefix}.uri"].startswith(scheme)]
    if "s3.region" in properties and "client.region" not in properties:
        spark_properties[f"{prefix}.client.region"] = properties["s3.region"]  # as Iceberg's Java library calls it
    if kind == "rest":
        # As pyiceberg asks by itself. A catalog that has no keys to hand out leaves it unheeded.
        spark_properties[f"{prefix}.header.X-Iceberg-Access-Delegation"] = "vended-credentials"
    if kind in ("sql", "hive") and properties.get("warehouse", "").startswith(_OBJECT_STORES):
        # Else these catalogs open files by Hadoop's classes, which know no object store without further jars.
        spark_properties[f"{prefix}.io-impl"] = "org.apache.iceberg.io.ResolvingFileIO"
    if properties.get("warehouse", "").startswith(_S3):
        needed.append(ICEBERG_AWS_BUNDLE)
    return {**_jars(needed, jars), **spark_properties}


def _jars(needed: Sequence[MavenJar], jars: LakeJars) -> dict[str, str]:
    if jars is LakeJars.PACKAGES:
        return {"spark.jars.packages": ",".join(jar.coordinates for jar in needed)}
    return {"spark.jars": ",".join(str(jar_path(jar)) for jar in needed)}


def _jdbc_uri(uri: str) -> str:
    """`sqlite:////a/b.db` -> `jdbc:sqlite:/a/b.db`; `postgresql+psycopg://h/d` -> `jdbc:postgresql://h/d`."""
    scheme, _, rest = uri.partition("://")
    dialect = scheme.split("+")[0]
    if dialect == "sqlite":
        return f"jdbc:sqlite:{unquote(rest.removeprefix('/'))}"  # SQLAlchemy decodes a path, the driver does not
    return f"jdbc:{dialect}://{rest.rpartition('@')[2]}"
