"""`lakeward spark-conf`, `lake-conf` and `spark-views`: how any Spark, and any pyiceberg, sees what this service has."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tiering.cli.spark.conf_files import as_properties_file, as_pyiceberg_yaml
from tiering.cli.spark.properties import (
    LakeJars,
    catalog_lake_properties,
    catalog_properties,
    lake_properties_for_spark,
    plugin_jar,
    session_catalog_properties,
)
from tiering.cli.spark.views import view_statements
from tiering.cli.system_catalog import SystemCatalog
from tiering.cli.terminal.options import DEFAULT_URI, UriOption, check_property
from tiering.lake.catalog_properties import accepted_properties
from tiering.model.names import check_name
from tiering.round.transport import GrpcTransport
from tiering.wire.channel import target


class Reader(StrEnum):
    """Who opens the lake."""

    PYICEBERG = "pyiceberg"
    SPARK = "spark"


LakeJarsOption = Annotated[
    LakeJars,
    typer.Option(help="How Spark gets Iceberg: as files that `lakeward fetch-jars` put on this machine, or by itself from Maven Central."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("spark-conf")(spark_conf)
    app.command("lake-conf")(lake_conf)
    app.command("spark-views")(spark_views)


def spark_conf(
    uri: UriOption = DEFAULT_URI,
    jar: Annotated[Path | None, typer.Option(help="Where the plugin jar lies on the Spark driver's machine, if not here.")] = None,
    default_catalog: Annotated[
        bool, typer.Option("--default-catalog", help="Make `fluss` the default catalog, so that `sys.x` is enough.")
    ] = False,
    session_catalog: Annotated[
        bool, typer.Option("--session-catalog", help="Show `sys` in Spark's own catalog too, which stays the default one.")
    ] = False,
    lake: Annotated[
        bool,
        typer.Option("--lake", help="Add the Iceberg catalog `lake`, as the service opens it."),
    ] = False,
    lake_jars: LakeJarsOption = LakeJars.PATHS,
) -> None:
    """Print the properties that give a Spark the catalog `fluss`. Only --lake asks the service.

    Example: lakeward spark-conf --uri 127.0.0.1:7707 --default-catalog --lake > fluss.conf
    """
    target(uri)  # a wrong one is said here, not by each Spark
    properties = catalog_properties(uri, jar or plugin_jar(), default_catalog)
    if session_catalog:
        properties |= session_catalog_properties(uri)
    if lake:
        properties |= catalog_lake_properties(_lake_properties(uri), lake_jars)
    print(as_properties_file(properties), end="")


def lake_conf(
    reader: Annotated[Reader, typer.Option("--for", help="Who opens the lake.")] = Reader.PYICEBERG,
    uri: UriOption = DEFAULT_URI,
    lake_jars: LakeJarsOption = LakeJars.PATHS,
) -> None:
    """Print how to open the lake itself, without Lakeward.

    Example: lakeward lake-conf --for pyiceberg > .pyiceberg.yaml
    """
    properties = _lake_properties(uri)
    if reader is Reader.SPARK:
        print(as_properties_file(lake_properties_for_spark(properties, lake_jars)), end="")
    else:
        print(as_pyiceberg_yaml(properties), end="")


def spark_views(
    database: Annotated[str, typer.Option(help="The database of Spark's built-in catalog that gets the views.")] = "lakeward",
    uri: UriOption = DEFAULT_URI,
) -> None:
    """Print SQL that makes views of the system tables, for tools whose tree shows Spark's built-in catalog only.

    Example: lakeward spark-views > views.sql && beeline -u jdbc:hive2://127.0.0.1:10000/sys -f views.sql
    """
    check_name(database, "database")
    with SystemCatalog(uri) as catalog:
        tables = catalog.describe().system_tables
    print(view_statements(tables, database), end="")


def _lake_properties(uri: str) -> dict[str, str]:
    transport = GrpcTransport(uri, "lake-conf")
    try:
        properties = accepted_properties(transport.service_config_now().lake_properties)
        for name, value in properties.items():
            check_property(f"the service at {uri} has the lake property", name, value)
        return properties
    finally:
        transport.close()
