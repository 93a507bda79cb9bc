"""The Spark that reads a lake for a proof, if this machine has all that it needs."""

from __future__ import annotations

from collections.abc import Mapping

from tiering.cli.spark.java import require_java
from tiering.cli.spark.properties import lake_catalog_name, lake_properties_for_spark
from tiering.errors import InvalidArgument, SetupError
from tiering.lake.proof.reader_counts import NOT_INSTALLED
from tiering.validate.archive.spark_reader import SparkReader


def spark_reader(properties: Mapping[str, str]) -> SparkReader:
    """Returns the reader of the lake that pyiceberg opens with `properties`."""
    try:
        require_java()
        return SparkReader(lake_catalog_name(properties), lake_properties_for_spark(properties))
    except (SetupError, InvalidArgument) as error:
        return SparkReader("", {}, f"{NOT_INSTALLED}: {error.message}")
