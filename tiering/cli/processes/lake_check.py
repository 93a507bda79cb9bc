"""Checks before the first round that the named lake belongs to a cluster that another service tiered before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import structlog

from tiering.cluster.base import TableCatalog
from tiering.errors import SetupError, TransientTieringError
from tiering.lake.base import Lake
from tiering.model.tables import TableInfo

log = structlog.get_logger(__name__)

LOOKED_AT = 5
"""Tables that are checked. A user may have dropped one of them from the lake; a lake with none of them belongs to another cluster."""


def check_lake_is_the_clusters(cluster: TableCatalog, lake: Lake) -> None:
    """Raises SetupError if the cluster reports tiered tables in the format of the lake, and the lake has none of the first few.

    If the cluster or the lake does not answer, the check is skipped with a warning: rounds cannot begin then, either.
    """
    try:
        check_lake(cluster, lake)
    except TransientTieringError as error:
        log.warning("could not check that the lake belongs to the cluster", error=error.message)


def check_lake(cluster: TableCatalog, lake: Lake) -> None:
    """Raises SetupError like `check_lake_is_the_clusters`, and also ClusterUnavailable and LakeUnavailable."""
    tiered = list(islice(_tiered(cluster, lake.format), LOOKED_AT))
    if not tiered or any(lake.view(table.path) is not None for table in tiered):
        return
    tables = ", ".join(str(table.path) for table in tiered)
    raise SetupError(
        f"the lake does not belong to the cluster: the cluster reports {tables} as tiered, and the lake has "
        f"{'no such table' if len(tiered) == 1 else 'none of these tables'}",
        hint="Name the cluster's lake with its server.yaml (--fluss-conf). If its lake tables are lost, start with --create-lake-tables; "
        "CALL sys.reconcile_lake then says how to continue with each table.",
    )


def _tiered(cluster: TableCatalog, lake_format: str) -> Iterator[TableInfo]:
    """Yields the tiered tables of this format. It asks the cluster about one table at a time, so the caller can stop early."""
    for table in cluster.tables():
        if table.lake_enabled and table.lake_format == lake_format and cluster.lake_snapshot(table) is not None:
            yield table
