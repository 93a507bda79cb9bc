"""`lakeward fetch-jars`: fetches once what Spark needs to read the lake, so that nothing else ever downloads."""

from __future__ import annotations

import typer

from tiering.cli.spark.jars import SPARK_JARS, fetch_jars, jars_folder


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("fetch-jars")(fetch)


def fetch() -> None:
    """Fetch with Maven, once, the jars with which Spark reads the lake, and check them. LAKEWARD_JARS names another folder.

    Example: lakeward fetch-jars
    """
    folder = jars_folder()
    fresh = fetch_jars(folder)
    for jar in SPARK_JARS:
        print(f"{folder / jar.file_name}  {'fetched' if jar in fresh else 'is there'}")
