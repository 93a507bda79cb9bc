"""Whether the cluster under an address is the one that this deployment works for. Pure.

Fluss gives itself no name. It numbers its tables upwards and never gives a number twice, so another cluster shows itself by a table
whose number was another table's here, or one that was made late under an early number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiering.cluster.fluss.memory import KnownTable
from tiering.errors import ClusterUnavailable

CLOCK_SKEW_MS = 600_000
"""By which the clocks of two coordinators of one cluster may differ, for creation times come from them."""


def check_identity(cluster_id: str, known: Mapping[int, KnownTable], listed: Iterable[KnownTable]) -> None:
    """Raises ClusterUnavailable if a listed table cannot be one of the cluster whose tables are `known`."""
    newest = max(known.values(), key=lambda table: table.table_id, default=None)
    for table in listed:
        former = known.get(table.table_id)
        if former is not None and former != table:
            raise _another(cluster_id, f"its table {table.path} has the id {table.table_id}, which is that of {_of(former)}")
        is_late = newest is not None and former is None and table.table_id < newest.table_id
        if is_late and newest is not None and table.created_ms > newest.created_ms + CLOCK_SKEW_MS:
            raise _another(cluster_id, f"its table {table.path} has the id {table.table_id}, but was made after {_of(newest)}")


def _of(table: KnownTable) -> str:
    return f"{table.path} (id {table.table_id}, made at {table.created_ms} ms)"


def _another(cluster_id: str, why: str) -> ClusterUnavailable:
    return ClusterUnavailable(
        f"another Fluss cluster answers where {cluster_id!r} was: {why}",
        hint="Nothing is tiered from it. Start Lakeward with the address of its own cluster (--fluss), or, for the new cluster, with a "
        "data folder and a --fluss-cluster-id of its own.",
        cluster_id=cluster_id,
    )
