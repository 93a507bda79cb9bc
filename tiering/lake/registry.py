"""The lake formats, and how to open a lake of a format. The only place that names a format.

To add a format, add a folder beside `iceberg/` with its `Lake` (interfaces: `base`, and optionally `maintenance` and `file_lists`), a
`LakeFormat` in it, and one line in `BUILT_IN`. Another distribution can bring a format without a change here: by an entry point of the
group `lakeward.lakes` with the format's name, which points to a `LakeFormat` (docs/lake-formats.md). In both cases the suite in
`tests/conformance/` tells whether it keeps the guarantees that rounds and coordinator rely on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from tiering.errors import InvalidArgument
from tiering.files.sqlite_files import sqlite_url
from tiering.lake.base import Lake, LakeFormat
from tiering.lake.catalog_properties import accepted_properties

BUILT_IN: Mapping[str, str] = {
    "iceberg": "tiering.lake.iceberg.lake:LAKE_FORMAT",
    "paimon": "tiering.lake.paimon.opening:LAKE_FORMAT",
}
"""Module and attribute of each format's `LakeFormat`, by the format's name. The module is imported when it is used."""

WITHOUT_PANDAS = frozenset({"iceberg"})
"""Formats whose packages load faster without pandas and do not need it. pypaimon needs it."""

SPARK_RUNTIMES: Mapping[str, str] = {"paimon": "org.apache.paimon:paimon-spark-<version of Spark>_2.13"}
"""The Spark jar of each format that Spark reads in a catalog of its own, and not in the one that `fluss` hands tables over to."""

ENTRY_POINTS = "lakeward.lakes"
"""Group of the entry points by which other distributions bring formats."""

LAKE_CATALOG_FILE = "lake-catalog.db"


def has_format(name: str) -> bool:
    """Whether a format of that name exists, even if it cannot be loaded."""
    return name.lower() in BUILT_IN or name.lower() in format_names()


def spark_runtime(name: str) -> str | None:
    """Returns the jar with which Spark reads tables of a format that `fluss` cannot hand over to it; None = it can."""
    return SPARK_RUNTIMES.get(name.lower())


def is_read_without_pandas(name: str) -> bool:
    """Whether a process that reads only lakes of this format does not need pandas."""
    return name.lower() in WITHOUT_PANDAS


def format_names() -> tuple[str, ...]:
    """Returns the names of all formats, sorted. It imports none of them."""
    return tuple(sorted({*BUILT_IN, *(point.name.lower() for point in entry_points(group=ENTRY_POINTS))}))


def lake_format(name: str) -> LakeFormat:
    """Returns the format. Raises InvalidArgument if it does not exist, if two distributions bring it, or if it cannot be loaded."""
    name = name.lower()
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        built_in: LakeFormat = getattr(import_module(module), attribute)
        return built_in
    points = [point for point in entry_points(group=ENTRY_POINTS) if point.name.lower() == name]
    if not points:
        hint = (
            f"This installation has: {', '.join(format_names())}. Create the table with one of these, install the other's distribution "
            "(docs/lake-formats.md), or let another service tier the table."
        )
        raise InvalidArgument(f"there is no lake format {name!r}", hint=hint, lake_format=name)
    if len({point.value for point in points}) > 1:
        raise InvalidArgument(
            f"several distributions bring the lake format {name!r}: {', '.join(map(_origin, points))}",
            hint="Uninstall all but one of them.",
            lake_format=name,
        )
    return _loaded(name, points[0])


def open_lake(name: str, properties: Mapping[str, str]) -> Lake:
    """Opens the lake of a format with the properties of its catalog, without a connection. Raises InvalidArgument."""
    return lake_format(name).open(properties)


def lake_opener(properties: Mapping[str, str], only: str | None = None) -> Callable[[str], Lake]:
    """Returns a function that opens the lake of a format with these properties, each format once. The function is safe to call from several
    threads and raises InvalidArgument.

    `only`: the format of a lake that belongs to the cluster. Readers would not find tables of another format there.
    """
    lock = threading.Lock()
    opened: dict[str, Lake] = {}

    def lake_of(name: str) -> Lake:
        if only is not None and name.lower() != only:
            raise InvalidArgument(
                f"the lake format is {name}, but the lake of this service has the format {only}",
                hint="Configure the cluster's own lake with its server.yaml (--fluss-conf), or let another service tier the table.",
                lake_format=name,
            )
        with lock:
            if name not in opened:
                opened[name] = open_lake(name, properties)
            return opened[name]

    return lake_of


def own_settings(name: str) -> Collection[str]:
    """Returns the names of the catalog's properties that this process has itself, from its environment or the user's configuration file."""
    return lake_format(name).own_settings()


def properties_from_service(name: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties with which this process opens the lake that a service describes. Raises InvalidArgument.

    This process's own settings take precedence, for example a URI with user and password in its environment.
    """
    own = own_settings(name)
    return {key: value for key, value in accepted_properties(properties).items() if key not in own}


def local_lake_properties(data_folder: Path) -> dict[str, str]:
    """Returns the properties of the lake in a data folder: a catalog in SQLite, tables under `lake/` (DESIGN 12)."""
    folder = data_folder.resolve()
    return {
        "type": "sql",
        "uri": sqlite_url(str(folder / LAKE_CATALOG_FILE)),
        "warehouse": f"file://{folder / 'lake'}",
    }


def _loaded(name: str, point: EntryPoint) -> LakeFormat:
    try:
        loaded = point.load()
        if not isinstance(loaded, LakeFormat):
            raise TypeError(f"{point.value} is a {type(loaded).__name__}, not a LakeFormat")
    except Exception as error:  # the import of a foreign module may raise any error
        raise InvalidArgument(
            f"the lake format {name!r}, which {_origin(point)} brings, cannot be loaded: {type(error).__name__}: {error}",
            hint="Repair or uninstall that distribution. Other formats work without it.",
            lake_format=name,
        ) from error
    return loaded


def _origin(point: EntryPoint) -> str:
    """Returns the origin of a format, such as `lakeward-delta 1.2 (lakeward_delta:FORMAT)`."""
    distribution = "an unknown distribution" if point.dist is None else f"{point.dist.name} {point.dist.version}"
    return f"{distribution} ({point.value})"
