"""Which lake formats there are, and how to open a lake of one. The only place that names a format.

To add a format: a folder beside `iceberg/` with its `Lake` (interfaces: `base`, and as far as it can `maintenance` and `file_lists`),
a `LakeFormat` in it, and one line in `BUILT_IN`. A distribution of its own brings one without a change here: an entry point of the
group `lakeward.lakes`, named as the format, that points to a `LakeFormat` (docs/lake-formats.md). Either way the suite in
`tests/conformance/` says whether it keeps what rounds and coordinator rely on.
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
"""By name, where its `LakeFormat` is; imported when it is used."""

ENTRY_POINTS = "lakeward.lakes"
"""Group of the entry points by which other distributions bring formats."""

LAKE_CATALOG_FILE = "lake-catalog.db"


def has_format(name: str) -> bool:
    """Whether there is a format of that name, whether or not it can be loaded."""
    return name.lower() in BUILT_IN or name.lower() in format_names()


def format_names() -> tuple[str, ...]:
    """All formats, sorted. Nothing of them is imported."""
    return tuple(sorted({*BUILT_IN, *(point.name.lower() for point in entry_points(group=ENTRY_POINTS))}))


def lake_format(name: str) -> LakeFormat:
    """The format of that name. Raises InvalidArgument if there is none, if two bring it, or if what brings it cannot be loaded."""
    name = name.lower()
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        built_in: LakeFormat = getattr(import_module(module), attribute)
        return built_in
    points = [point for point in entry_points(group=ENTRY_POINTS) if point.name.lower() == name]
    if not points:
        hint = (
            f"This installation has: {', '.join(format_names())}. Make the table with one of these, install what brings the other "
            "(docs/lake-formats.md), or leave the table to a service that writes it."
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
    """The lake of a format, by the properties of its catalog; connects to nothing yet. Raises InvalidArgument."""
    return lake_format(name).open(properties)


def lake_opener(properties: Mapping[str, str]) -> Callable[[str], Lake]:
    """Opens the lake of a format by these properties, each format once. May be called from several threads. Raises InvalidArgument."""
    lock = threading.Lock()
    opened: dict[str, Lake] = {}

    def lake_of(name: str) -> Lake:
        with lock:
            if name not in opened:
                opened[name] = open_lake(name, properties)
            return opened[name]

    return lake_of


def own_settings(name: str) -> Collection[str]:
    """Names of the catalog's properties that this process has of its own, from its environment or the user's configuration file."""
    return lake_format(name).own_settings()


def properties_from_service(name: str, properties: Mapping[str, str]) -> dict[str, str]:
    """How this process opens the lake that a service describes, as far as the service may say. Raises InvalidArgument.

    What its own environment says goes before that: there a URI has its user and password.
    """
    own = own_settings(name)
    return {key: value for key, value in accepted_properties(properties).items() if key not in own}


def local_lake_properties(data_folder: Path) -> dict[str, str]:
    """Properties of the lake in a data folder: a catalog in SQLite, tables under `lake/` (DESIGN 12)."""
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
            raise TypeError(f"{point.value} is a {type(loaded).__name__}, no LakeFormat")
    except Exception as error:  # whatever a module of somebody else's raises when it is imported
        raise InvalidArgument(
            f"the lake format {name!r}, which {_origin(point)} brings, cannot be loaded: {type(error).__name__}: {error}",
            hint="Mend or uninstall that distribution. Other formats work without it.",
            lake_format=name,
        ) from error
    return loaded


def _origin(point: EntryPoint) -> str:
    """`lakeward-delta 1.2 (lakeward_delta:FORMAT)`."""
    distribution = "an unknown distribution" if point.dist is None else f"{point.dist.name} {point.dist.version}"
    return f"{distribution} ({point.value})"
