"""`lakeward fetch-jars`: downloads the jars that Spark needs to read the lake. No other command downloads anything."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli import maven_jars
from tiering.cli.fluss_server.jars import fetch_server_jars
from tiering.cli.spark.jars import INSTALLED_SPARK, POSTGRESQL_JDBC, SQLITE_JDBC, SparkVersion, aws_bundle, iceberg_runtime


def fetch_jars(
    fluss_server: Annotated[
        bool,
        typer.Option("--fluss-server", help="Also download a Fluss server and its Iceberg plugin (180 MB), to try a real cluster."),
    ] = False,
    s3: Annotated[bool, typer.Option("--s3", help="Also download the jar that Spark needs for a lake in S3 (69 MB).")] = False,
    spark: Annotated[SparkVersion, typer.Option("--spark", help="Version of the Spark that gets the jars.")] = INSTALLED_SPARK,
) -> None:
    """Download the jars with which Spark reads the lake, once, with Maven, and check them. LAKEWARD_JARS names another folder.

    Example: lakeward fetch-jars
    """
    folder = maven_jars.jars_folder()
    jars = (iceberg_runtime(spark), SQLITE_JDBC, POSTGRESQL_JDBC, *([aws_bundle(spark)] if s3 else ()))
    fresh = maven_jars.fetch_jars(folder, jars)
    for jar in jars:
        print(f"{folder / jar.file_name}  {'fetched' if jar in fresh else 'is there'}")
    if fluss_server:
        for path, was_fetched in fetch_server_jars().items():
            print(f"{path}  {'fetched' if was_fetched else 'is there'}")
