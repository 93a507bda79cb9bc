"""How the registry opens the Paimon lake: with pypaimon at hand, for a warehouse that is a folder of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tiering.errors import InvalidArgument
from tiering.lake.base import Lake, LakeFormat

EXTRA = "lakeward[paimon]"
KINDS = ("", "sql", "hadoop", "filesystem")
"""Values of the property `type` with which the tables are found by the names of their folders. `sql` is what a data folder's own lake
has, for the catalog of its Iceberg tables."""


def open_paimon(properties: Mapping[str, str]) -> Lake:
    """The Paimon tables below `warehouse`. Raises InvalidArgument: no pypaimon, or a catalog or a storage that is not supported."""
    try:
        from tiering.lake.paimon.lake import PaimonLake
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("tiering"):
            raise
        raise InvalidArgument(
            f"the package {error.name} is not installed, with which Paimon tables are read",
            hint=f"Install it where coordinator and tierers run: pip install '{EXTRA}'.",
            lake_format="paimon",
        ) from error
    return PaimonLake(warehouse_folder(properties))


def warehouse_folder(properties: Mapping[str, str]) -> Path:
    """The folder that `warehouse` names. Raises InvalidArgument."""
    kind = properties.get("type", "").lower()
    if kind not in KINDS:
        raise InvalidArgument(
            f"Paimon tables in a catalog of type {kind!r} are not supported",
            hint="Their catalog is the warehouse folder itself: leave `type` out.",
            lake_format="paimon",
        )
    warehouse = properties.get("warehouse", "")
    parts = urlsplit(warehouse)
    path = unquote(parts.path) if parts.scheme else warehouse
    if parts.scheme not in ("", "file") or parts.netloc not in ("", "localhost") or not path.startswith("/"):
        raise InvalidArgument(
            f"Paimon tables in the warehouse {warehouse!r} are not supported",
            hint="The property `warehouse` has to be a folder of this machine: /path/of/a/folder, or file:///path/of/a/folder.",
            lake_format="paimon",
        )
    return Path(path)


LAKE_FORMAT = LakeFormat(open_paimon)
"""What the registry finds under `paimon`."""
