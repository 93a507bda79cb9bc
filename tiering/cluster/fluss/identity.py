"""Checks that the cluster at an address is the one that this deployment works for. Pure.

A Fluss cluster has no name. Its table ids increase and are never reused. So another cluster can be recognized: a table id belongs to
another table there, or a table with a low id was created late.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiering.cluster.fluss.memory import KnownTable
from tiering.errors import ClusterUnavailable

CLOCK_SKEW_MS = 600_000
"""Maximum difference between the clocks of two coordinators of one cluster, because creation times come from them."""


def check_identity(cluster_id: str, known_tables: Mapping[int, KnownTable], listed: Iterable[KnownTable]) -> None:
    """Raises ClusterUnavailable if a listed table cannot belong to the cluster whose tables are `known_tables`."""
    newest = max(known_tables.values(), key=lambda table: table.table_id, default=None)
    for table in listed:
        former = known_tables.get(table.table_id)
        if former is not None and former != table:
            raise _another(cluster_id, f"its table {table.path} has the id {table.table_id}, which is that of {_described(former)}")
        is_late = newest is not None and former is None and table.table_id < newest.table_id
        if is_late and newest is not None and table.created_ms > newest.created_ms + CLOCK_SKEW_MS:
            raise _another(cluster_id, f"its table {table.path} has the id {table.table_id}, but was created after {_described(newest)}")


def _described(table: KnownTable) -> str:
    return f"{table.path} (id {table.table_id}, created at {table.created_ms} ms)"


def _another(cluster_id: str, why: str) -> ClusterUnavailable:
    return ClusterUnavailable(
        f"another Fluss cluster answers where {cluster_id!r} was: {why}",
        hint="Nothing is tiered from it. Start Lakeward with the address of the former cluster (--fluss). For the new cluster, use another "
        "data folder and another --fluss-cluster-id.",
        cluster_id=cluster_id,
    )
