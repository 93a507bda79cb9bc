"""Which lake formats there are, and how to open one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path

from sqlalchemy import URL

from tiering.errors import InvalidArgument
from tiering.lake.base import Lake
from tiering.lake.catalog_properties import accepted_properties
from tiering.lake.iceberg.catalogs.opening import own_settings as own_iceberg_settings
from tiering.lake.iceberg.lake import FORMAT as ICEBERG
from tiering.lake.iceberg.lake import IcebergLake

LAKE_CATALOG_FILE = "lake-catalog.db"

_FORMATS: Mapping[str, Callable[[Mapping[str, str]], Lake]] = {ICEBERG: IcebergLake}


def open_lake(lake_format: str, properties: Mapping[str, str]) -> Lake:
    """The lake of a format, by the properties of its catalog; opens nothing yet. Raises InvalidArgument."""
    make = _FORMATS.get(lake_format.lower())
    if make is None:
        raise InvalidArgument(
            f"there is no lake format {lake_format!r}",
            hint=f"This version has: {', '.join(sorted(_FORMATS))}.",
            lake_format=lake_format,
        )
    return make(properties)


def own_settings(lake_format: str) -> Collection[str]:
    """Names of the catalog's properties that this process has of its own, from its environment or the user's configuration file."""
    return own_iceberg_settings() if lake_format.lower() == ICEBERG else ()


def properties_from_service(lake_format: str, properties: Mapping[str, str]) -> dict[str, str]:
    """How this process opens the lake that a service describes, as far as the service may say. Raises InvalidArgument.

    What its own environment says goes before that: there a URI has its user and password.
    """
    own = own_settings(lake_format)
    return {name: value for name, value in accepted_properties(properties).items() if name not in own}


def lake_opener(properties: Mapping[str, str]) -> Callable[[str], Lake]:
    """Opens each format's lake once, with properties that a service sent."""

    @cache
    def opened(lake_format: str) -> Lake:
        return open_lake(lake_format, properties_from_service(lake_format, properties))

    return opened


def local_lake_properties(data_folder: Path) -> dict[str, str]:
    """Properties of the lake in a data folder: a catalog in SQLite, tables under `lake/` (DESIGN 12)."""
    folder = data_folder.resolve()
    return {
        "type": "sql",
        "uri": URL.create("sqlite", database=str(folder / LAKE_CATALOG_FILE)).render_as_string(hide_password=False),
        "warehouse": f"file://{folder / 'lake'}",
    }
