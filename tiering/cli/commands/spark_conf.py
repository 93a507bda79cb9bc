"""`lakeward spark-conf`: prints the Spark properties for the catalog `fluss`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tiering.cli.service_lake import service_lake
from tiering.cli.spark.conf_files import as_properties_file
from tiering.cli.spark.jars import INSTALLED_SPARK, SparkVersion
from tiering.cli.spark.properties import (
    LakeJars,
    access_properties,
    catalog_lake_properties,
    catalog_properties,
    driver_class_path,
    plugin_jar,
    session_catalog_properties,
    with_call,
)
from tiering.cli.terminal.options import DEFAULT_URI, LakeJarsOption, SparkOption, UriOption
from tiering.errors import InvalidArgument
from tiering.wire.channel import service_addresses

HEADER = {"spark.sql.cli.print.header": "true"}
"""Makes the spark-sql shell print column names above the rows. Other programs ignore the property."""


def spark_conf(
    uri: UriOption = DEFAULT_URI,
    jar: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Path of the plugin jar on the Spark driver's machine. Default: its path on this machine."),
    ] = None,
    python: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Python with the package lakeward, at the same path on driver and executors, which read the log with it."
            " Default: the Python of this environment; none with --jar.",
        ),
    ] = None,
    default_catalog: Annotated[
        bool, typer.Option("--default-catalog", help="Make `fluss` the default catalog, so that `sys.x` means `fluss.sys.x`.")
    ] = False,
    session_catalog: Annotated[
        bool, typer.Option("--session-catalog", help="Show `sys` also in Spark's built-in catalog, which stays the default catalog.")
    ] = False,
    lake: Annotated[
        bool,
        typer.Option("--lake", help="Add the Iceberg catalog `lake`, with the lake properties of the service."),
    ] = False,
    lake_jars: LakeJarsOption = LakeJars.PATHS,
    spark: SparkOption = INSTALLED_SPARK,
) -> None:
    """Print the Spark properties for the catalog `fluss`. Only with --lake does the command ask the service.

    Example: lakeward spark-conf --uri 127.0.0.1:7707 --default-catalog --lake > fluss.conf
    """
    service_addresses(uri)  # reports a wrong address here, instead of later in each Spark
    if session_catalog and spark is SparkVersion.V3_5:
        raise InvalidArgument(f"--session-catalog does not work with Spark {spark}", hint="Use --default-catalog, or Spark 4.0 or newer.")
    if python is None and jar is None and spark is not SparkVersion.V3_5:  # executors of 3.5 read no rows of the log
        python = Path(sys.executable)
    jar = jar or plugin_jar(spark)
    properties = catalog_properties(uri, jar, default_catalog, python) | access_properties()
    properties |= HEADER
    if session_catalog:
        properties |= session_catalog_properties(uri)
    if lake:
        lake_properties = catalog_lake_properties(service_lake(uri).properties, lake_jars, spark)
        properties |= lake_properties | driver_class_path(jar, lake_properties)
    print(as_properties_file(with_call(properties, spark)), end="")
