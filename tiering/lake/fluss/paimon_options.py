"""The Paimon lake of a Fluss cluster, from the options `datalake.paimon.*` that Fluss passes unchanged to Paimon's CatalogContext. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from tiering.errors import InvalidArgument
from tiering.lake.catalog_properties import FILESYSTEM

PREFIX = "datalake.paimon."
_TAKEN = ("metastore", "warehouse")
_ALWAYS_ALLOWED = "table-default."
"""Prefix of options for new Paimon tables. Their values are in the table itself, where a round checks them."""


def paimon_properties(options: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Returns properties of our lake, and the names of left-out options, which only a JVM reads. `options`: without their prefix.

    Raises InvalidArgument that names the option, for a metastore or a storage on which Lakeward cannot commit.
    """
    metastore = options.get("metastore", FILESYSTEM).lower()  # Paimon's default
    if metastore != FILESYSTEM:
        raise InvalidArgument(
            f"the lake is a Paimon catalog of the metastore {metastore[:60]!r} ({PREFIX}metastore), to which Lakeward does not commit",
            hint=f"It commits to {FILESYSTEM} catalogs on a folder. Let Flink's tiering tier the cluster's tables: without the options of "
            "the lake the cluster is connected too, and its tables are shown.",
        )
    warehouse = options.get("warehouse", "")
    if not warehouse:
        raise InvalidArgument(f"the lake's Paimon catalog has no {PREFIX}warehouse")
    parts = urlsplit(warehouse)
    path = unquote(parts.path) if parts.scheme else warehouse
    if parts.scheme not in ("", "file") or parts.netloc or not path.startswith("/"):
        raise InvalidArgument(
            f"the Paimon warehouse {warehouse[:200]!r} ({PREFIX}warehouse) is not a folder of this machine",
            hint="Lakeward commits to Paimon tables in a folder that coordinator, tierers and Flink all see under the same path, such as "
            "/data/paimon. Let Flink's tiering tier tables on object stores and HDFS.",
        )
    left_out = (name for name in options if name not in _TAKEN and not name.startswith(_ALWAYS_ALLOWED))
    return {"type": FILESYSTEM, "warehouse": path}, tuple(sorted(PREFIX + name for name in left_out))
