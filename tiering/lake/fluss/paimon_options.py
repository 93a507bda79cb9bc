"""The Paimon lake of a Fluss cluster by its options `datalake.paimon.*`, which Fluss gives to Paimon's CatalogContext as they are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from tiering.errors import InvalidArgument
from tiering.lake.catalog_properties import FILESYSTEM

PREFIX = "datalake.paimon."
_TAKEN = ("metastore", "warehouse")
_ALWAYS_ALLOWED = "table-default."
"""Begins options of tables that Paimon makes. What they are in a table stands in the table itself, where a round looks at it."""


def paimon_properties(options: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Properties of our lake, and the names of options that are left out, for they are for a JVM. `options`: without their prefix.

    Raises InvalidArgument, which names the option: a metastore or a storage on which Lakeward does not commit.
    """
    metastore = options.get("metastore", FILESYSTEM).lower()  # Paimon's default
    if metastore != FILESYSTEM:
        raise InvalidArgument(
            f"the lake is a Paimon catalog of the metastore {metastore[:60]!r} ({PREFIX}metastore), to which Lakeward does not commit",
            hint=f"It commits to {FILESYSTEM} catalogs on a folder. Leave the cluster's tables to Flink's tiering: without the options of "
            "the lake the cluster is connected all the same, and its tables are shown.",
        )
    warehouse = options.get("warehouse", "")
    if not warehouse:
        raise InvalidArgument(f"the lake's Paimon catalog has no {PREFIX}warehouse")
    parts = urlsplit(warehouse)
    path = unquote(parts.path) if parts.scheme else warehouse
    if parts.scheme not in ("", "file") or parts.netloc or not path.startswith("/"):
        raise InvalidArgument(
            f"the Paimon warehouse {warehouse[:200]!r} ({PREFIX}warehouse) is no folder of this machine",
            hint="Lakeward commits to Paimon tables in a folder that coordinator, tierers and Flink all see under one path, such as "
            "/data/paimon. Object stores and HDFS are left to Flink's tiering.",
        )
    left_out = (name for name in options if name not in _TAKEN and not name.startswith(_ALWAYS_ALLOWED))
    return {"type": FILESYSTEM, "warehouse": path}, tuple(sorted(PREFIX + name for name in left_out))
