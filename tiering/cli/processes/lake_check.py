"""Whether the lake that was named is the cluster's: looked at before the first round, of a cluster that others tiered before."""

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
"""Tables. One of them may have been dropped from the lake by a user; a lake that has none of them is another one."""


def check_lake_is_the_clusters(cluster: TableCatalog, lake: Lake) -> None:
    """Raises SetupError if the cluster says that tables of the lake's format are tiered, and none of the first few of them is in it.

    While the cluster or the lake does not answer nothing is known, and rounds do not begin either: the log says so.
    """
    try:
        check_lake(cluster, lake)
    except TransientTieringError as error:
        log.warning("whether the lake is the cluster's could not be looked at", error=error.message)


def check_lake(cluster: TableCatalog, lake: Lake) -> None:
    """The same; raises ClusterUnavailable, LakeUnavailable as well."""
    tiered = list(islice(_tiered(cluster, lake.format), LOOKED_AT))
    if not tiered or any(lake.view(table.path) is not None for table in tiered):
        return
    tables = ", ".join(str(table.path) for table in tiered)
    raise SetupError(
        f"the lake catalog is not the cluster's: the cluster says that {tables} {'is' if len(tiered) == 1 else 'are'} tiered, and the lake "
        "that was named does not have it",
        hint="Name the cluster's own lake, with its server.yaml (--fluss-conf). If its lake tables are gone for good, --create-lake-tables "
        "starts all the same; CALL sys.reconcile_lake then says how each table goes on.",
    )


def _tiered(cluster: TableCatalog, lake_format: str) -> Iterator[TableInfo]:
    """Asks the cluster about one table after the other: whoever has seen enough of them stops."""
    for table in cluster.tables():
        if table.lake_enabled and table.lake_format == lake_format and cluster.lake_snapshot(table) is not None:
            yield table
