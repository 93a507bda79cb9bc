"""`lakeward fetch-jars`: downloads the jars that Spark needs to read the lake. No other command downloads anything."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli import maven_jars
from tiering.cli.fluss_server.jars import fetch_server_jars
from tiering.cli.spark.jars import ICEBERG_AWS_BUNDLE, SPARK_JARS


def fetch_jars(
    fluss_server: Annotated[
        bool,
        typer.Option("--fluss-server", help="Also download a Fluss server and its Iceberg plugin (180 MB), to try a real cluster."),
    ] = False,
    s3: Annotated[bool, typer.Option("--s3", help="Also download the jar that Spark needs for a lake in S3 (69 MB).")] = False,
) -> None:
    """Download the jars with which Spark reads the lake, once, with Maven, and check them. LAKEWARD_JARS names another folder.

    Example: lakeward fetch-jars
    """
    folder = maven_jars.jars_folder()
    jars = (*SPARK_JARS, ICEBERG_AWS_BUNDLE) if s3 else SPARK_JARS
    fresh = maven_jars.fetch_jars(folder, jars)
    for jar in jars:
        print(f"{folder / jar.file_name}  {'fetched' if jar in fresh else 'is there'}")
    if fluss_server:
        for path, was_fetched in fetch_server_jars().items():
            print(f"{path}  {'fetched' if was_fetched else 'is there'}")
