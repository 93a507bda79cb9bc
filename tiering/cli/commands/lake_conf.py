"""`lakeward lake-conf`: prints the settings with which Spark or pyiceberg opens the lake without Lakeward."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tiering.cli.service_lake import service_lake
from tiering.cli.spark.conf_files import as_properties_file, as_pyiceberg_yaml
from tiering.cli.spark.jars import INSTALLED_SPARK
from tiering.cli.spark.properties import LakeJars, lake_properties_for_spark
from tiering.cli.terminal.options import DEFAULT_URI, LakeJarsOption, SparkOption, UriOption


class Reader(StrEnum):
    """Programs that can open the lake."""

    PYICEBERG = "pyiceberg"
    SPARK = "spark"


def lake_conf(
    reader: Annotated[Reader, typer.Option("--for", help="Program that opens the lake.")] = Reader.PYICEBERG,
    uri: UriOption = DEFAULT_URI,
    lake_jars: LakeJarsOption = LakeJars.PATHS,
    spark: SparkOption = INSTALLED_SPARK,
) -> None:
    """Print the settings with which pyiceberg or Spark opens the lake without Lakeward.

    Example: lakeward lake-conf --for pyiceberg > .pyiceberg.yaml
    """
    properties = service_lake(uri).properties
    if reader is Reader.SPARK:
        print(as_properties_file(lake_properties_for_spark(properties, lake_jars, spark)), end="")
    else:
        print(as_pyiceberg_yaml(properties), end="")
