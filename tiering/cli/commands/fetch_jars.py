"""`lakeward fetch-jars`: fetches once what Spark needs to read the lake, so that nothing else ever downloads."""

from __future__ import annotations

from typing import Annotated

import typer

from tiering.cli.fluss_server.jars import fetch_server_jars
from tiering.cli.maven_jars import fetch_jars, jars_folder
from tiering.cli.spark.jars import ICEBERG_AWS_BUNDLE, SPARK_JARS


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("fetch-jars")(fetch)


def fetch(
    fluss_server: Annotated[
        bool,
        typer.Option("--fluss-server", help="Fetch a Fluss server and its Iceberg plugin as well (180 MB), to try a real cluster with."),
    ] = False,
    s3: Annotated[bool, typer.Option("--s3", help="Fetch what Spark needs for a lake in S3 as well (69 MB).")] = False,
) -> None:
    """Fetch with Maven, once, the jars with which Spark reads the lake, and check them. LAKEWARD_JARS names another folder.

    Example: lakeward fetch-jars
    """
    folder = jars_folder()
    jars = (*SPARK_JARS, ICEBERG_AWS_BUNDLE) if s3 else SPARK_JARS
    fresh = fetch_jars(folder, jars)
    for jar in jars:
        print(f"{folder / jar.file_name}  {'fetched' if jar in fresh else 'is there'}")
    if fluss_server:
        for path, was_fetched in fetch_server_jars().items():
            print(f"{path}  {'fetched' if was_fetched else 'is there'}")
