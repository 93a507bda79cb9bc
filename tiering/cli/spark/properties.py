"""The properties with which Spark opens Lakeward and the lake, for `lakeward spark-conf` and `lake-conf`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote

from tiering.access.client_access import access_from_environment
from tiering.cli.maven_jars import PACKAGED_JARS, MavenJar
from tiering.cli.spark.jars import INSTALLED_SPARK, POSTGRESQL_JDBC, SQLITE_JDBC, SparkVersion, aws_bundle, iceberg_runtime, jar_path
from tiering.errors import InvalidArgument, SetupError
from tiering.lake.catalog_properties import CATALOG_NAME, FILESYSTEM
from tiering.model.names import CATALOG as CATALOG

LAKE_CATALOG = "lake"
CATALOG_CLASS = "io.lakeward.spark.LakewardCatalog"
SESSION_CATALOG = "spark_catalog"
SESSION_CATALOG_CLASS = "io.lakeward.spark.LakewardSessionCatalog"
DRIVER_CLASS_PATH = "spark.driver.extraClassPath"
EXTENSIONS = "spark.sql.extensions"
CALL_EXTENSION = "io.lakeward.spark.LakewardExtensions"
"""The class that adds CALL to the SQL of Spark 3.5."""
_PYICEBERG_TO_SPARK_TYPE = {"sql": "jdbc", "rest": "rest", "hive": "hive", "glue": "glue", "hadoop": "hadoop"}
_DRIVERS = {"jdbc:sqlite": SQLITE_JDBC, "jdbc:postgresql": POSTGRESQL_JDBC}
_S3 = ("s3://", "s3a://")
_OBJECT_STORES = (*_S3, "gs://", "abfs://", "abfss://")


class LakeJars(StrEnum):
    """Where Spark gets the jars for the lake."""

    PATHS = "paths"
    """Files on this machine, which `lakeward fetch-jars` downloaded."""
    PACKAGES = "packages"
    """Maven coordinates. Spark downloads them from Maven Central at its first start."""


def plugin_jar(spark: SparkVersion = INSTALLED_SPARK) -> Path:
    """Returns the jar of the catalog plugin for `spark` in the installed package. Raises SetupError if the package has no jar."""
    jar = PACKAGED_JARS / ("lakeward-spark-plugin-3.5.jar" if spark is SparkVersion.V3_5 else "lakeward-spark-plugin.jar")
    if not jar.exists():
        raise SetupError(f"the Spark plugin is missing: {jar}", hint="Run `make setup`, or install the wheel, which includes it.")
    return jar


def catalog_properties(uri: str, jar: Path, default: bool = False, python: Path | None = None) -> dict[str, str]:
    """Returns the properties of the catalog `fluss`, for a Spark that can read `jar`. `default` makes it the default catalog.

    `python` is the Python with which executors read the log; None = the one that PYSPARK_PYTHON names in the driver's environment.
    The jar goes on the driver's class path: Spark loads `spark.jars` too late for a default catalog, and the session would fail with
    ClassNotFoundException.
    """
    properties = {
        DRIVER_CLASS_PATH: str(jar),
        f"spark.sql.catalog.{CATALOG}": CATALOG_CLASS,
        f"spark.sql.catalog.{CATALOG}.uri": uri,
    }
    if python is not None:
        properties[f"spark.sql.catalog.{CATALOG}.python"] = str(python)
    return {**properties, "spark.sql.defaultCatalog": CATALOG} if default else properties


def access_properties() -> dict[str, str]:
    """Returns the properties for the token and TLS files that this process names.

    They do not name the token file of a service of the same user: the plugin finds it by the uri. A named file that is missing after
    the end of its service would hide that no service answers.
    """
    access, prefix = access_from_environment(), f"spark.sql.catalog.{CATALOG}."
    files = {"token-file": access.token_file, "tls.ca": access.tls_ca, "tls.cert": access.tls_cert, "tls.key": access.tls_key}
    return {prefix + name: str(file.absolute()) for name, file in files.items() if file is not None}


def session_catalog_properties(uri: str) -> dict[str, str]:
    """Returns the properties that show `sys` in Spark's built-in catalog, which stays the default. They need the plugin jar, too."""
    return {f"spark.sql.catalog.{SESSION_CATALOG}": SESSION_CATALOG_CLASS, f"spark.sql.catalog.{SESSION_CATALOG}.uri": uri}


def with_call(properties: Mapping[str, str], spark: SparkVersion) -> dict[str, str]:
    """Returns the properties, for Spark 3.5 with the extension that adds CALL to its SQL, behind other extensions."""
    if spark is not SparkVersion.V3_5:
        return dict(properties)
    return {**properties, EXTENSIONS: ",".join([*filter(None, [properties.get(EXTENSIONS)]), CALL_EXTENSION])}


def catalog_lake_properties(
    lake: Mapping[str, str], jars: LakeJars = LakeJars.PATHS, spark: SparkVersion = INSTALLED_SPARK
) -> dict[str, str]:
    """Returns the properties of the catalog `lake`, in which the catalog `fluss` reads data tables. `lake` has pyiceberg's properties.

    Raises SetupError for a missing jar, and InvalidArgument for a version of Spark without a runtime of Iceberg.
    """
    return {**lake_properties_for_spark(lake, jars, spark), f"spark.sql.catalog.{CATALOG}.lake": lake_catalog_name(lake)}


def driver_class_path(jar: Path, lake_properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the class path of a driver with the plugin's jar, and with the jars for the lake that are files.

    The driver does not read these from `spark.jars`, because a Thrift server closes the class loader of `spark.jars` when its first session
    ends (Hive's `SessionState.close`). Later sessions would fail with NoClassDefFoundError for classes of Iceberg.
    """
    jars = lake_properties.get("spark.jars", "")
    return {DRIVER_CLASS_PATH: ":".join([str(jar), *filter(None, jars.split(","))])}


def lake_catalog_name(lake: Mapping[str, str]) -> str:
    """Returns the name of the lake's catalog. A SQL catalog stores it in its rows, so Spark's catalog needs the same name (DESIGN 12)."""
    return lake.get(CATALOG_NAME) or LAKE_CATALOG


def lake_properties_for_spark(
    properties: Mapping[str, str], jars: LakeJars = LakeJars.PATHS, spark: SparkVersion = INSTALLED_SPARK
) -> dict[str, str]:
    """Returns Spark's properties for the Iceberg catalog that pyiceberg opens with `properties`. Its name is `lake_catalog_name`.

    Raises SetupError for a missing jar, and InvalidArgument for a lake of Paimon tables or a version of Spark without a runtime of Iceberg.
    """
    kind = properties.get("type", "sql").lower()
    if kind == FILESYSTEM:
        raise InvalidArgument(
            "the lake has Paimon tables, and Paimon has no runtime for Spark 4 that Lakeward could configure",
            hint="Read the tables with `lakeward sql --engine duckdb`, or with pypaimon: `lakeward lake-conf` prints the warehouse.",
        )
    prefix = f"spark.sql.catalog.{lake_catalog_name(properties)}"
    spark_properties = {
        EXTENSIONS: "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": _PYICEBERG_TO_SPARK_TYPE.get(kind, kind),
    }
    needed = [iceberg_runtime(spark)]
    for name, value in properties.items():
        if name == "uri" and kind == "sql":
            spark_properties[f"{prefix}.uri"] = _jdbc_uri(value)
        elif name not in ("type", CATALOG_NAME):
            spark_properties[f"{prefix}.{name}"] = value
    if kind == "sql":
        # Iceberg would create tables, and every JVM would lock the SQLite file for ever. `jdbc.schema-version` is never set: Iceberg
        # detects V1, which pyiceberg creates. With the property, Iceberg would alter the tables of a V0 catalog of another program.
        spark_properties[f"{prefix}.jdbc.init-catalog-tables"] = "false"
        needed += [jar for scheme, jar in _DRIVERS.items() if spark_properties[f"{prefix}.uri"].startswith(scheme)]
    if "s3.region" in properties and "client.region" not in properties:
        spark_properties[f"{prefix}.client.region"] = properties["s3.region"]  # the name of the property in Iceberg's Java library
    if kind == "rest":
        # pyiceberg sends this header by default. A catalog without credentials to vend ignores it.
        spark_properties[f"{prefix}.header.X-Iceberg-Access-Delegation"] = "vended-credentials"
    if kind in ("sql", "hive") and properties.get("warehouse", "").startswith(_OBJECT_STORES):
        # By default these catalogs open files with Hadoop's classes, which support object stores only with more jars.
        spark_properties[f"{prefix}.io-impl"] = "org.apache.iceberg.io.ResolvingFileIO"
    if properties.get("warehouse", "").startswith(_S3):
        needed.append(aws_bundle(spark))
    return {**_jars(needed, jars, spark), **spark_properties}


def _jars(needed: Sequence[MavenJar], jars: LakeJars, spark: SparkVersion) -> dict[str, str]:
    if jars is LakeJars.PACKAGES:
        return {"spark.jars.packages": ",".join(jar.coordinates for jar in needed)}
    return {"spark.jars": ",".join(str(jar_path(jar, spark)) for jar in needed)}


def _jdbc_uri(uri: str) -> str:
    """`sqlite:////a/b.db` -> `jdbc:sqlite:/a/b.db`; `postgresql+psycopg://h/d` -> `jdbc:postgresql://h/d`."""
    scheme, _, address = uri.partition("://")
    dialect = scheme.split("+")[0]
    if dialect == "sqlite":
        return f"jdbc:sqlite:{unquote(address.removeprefix('/'))}"  # SQLAlchemy decodes the path, and the JDBC driver does not
    return f"jdbc:{dialect}://{address.rpartition('@')[2]}"
