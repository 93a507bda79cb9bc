"""Clusters that assign their tables to tiering services, of which this deployment is one: Apache Fluss in SHARED mode.

The coordinator relays: it asks for tables while its tierers have room, renews those that it has, and says how they ended.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tiering.cluster.base import TableCatalog
from tiering.errors import LakeRecordUnreadable
from tiering.model.assignments import AssignmentAnswer, AssignmentReport, ServiceStatus
from tiering.model.tables import TableInfo


@runtime_checkable
class TableAssignments(Protocol):
    """The cluster's scheduler. Used by one thread at a time."""

    def session(self) -> str:
        """The name of the session that is open, which is begun if none is. What was assigned in another one counts no more.

        Raises ClusterUnavailable.
        """
        ...

    def heartbeat(self, session: str, report: AssignmentReport) -> AssignmentAnswer:
        """Reports, and asks for a table. Never repeated by itself.

        Raises ClusterUnavailable, also if `session` is over; the cluster may have taken the report all the same.
        """
        ...


@runtime_checkable
class AssigningCluster(Protocol):
    """A coordinator's view of a cluster that may assign."""

    @property
    def assignments(self) -> TableAssignments | None:
        """None where this deployment schedules by itself."""
        ...


class ServiceStatuses(Protocol):
    """How the tiering of tables stands that are another service's turn."""

    def status(self, table: TableInfo) -> ServiceStatus:
        """One table's. Raises ClusterUnavailable, UnknownTable."""
        ...


class DerivedStatuses:
    """From the lake snapshots that the cluster was told of, which is all that Fluss 0.9 says of what other services do.

    A cluster that answers a status call of its own is asked that, by another `ServiceStatuses` in this one's place.
    """

    source = "derived"

    def __init__(self, cluster: TableCatalog) -> None:
        self._cluster = cluster

    def status(self, table: TableInfo) -> ServiceStatus:
        """As `ServiceStatuses.status`."""
        try:
            return ServiceStatus(self.source, self._cluster.lake_snapshot(table))
        except LakeRecordUnreadable:  # its file is gone; the next base check mends that
            return ServiceStatus(self.source, None)


def statuses_of(cluster: TableCatalog) -> ServiceStatuses:
    """Where the cluster is asked for them."""
    return DerivedStatuses(cluster)


def assignments_of(cluster: object) -> TableAssignments | None:
    """The cluster's scheduler; None for a cluster that has none, or leaves the scheduling to this deployment."""
    return cluster.assignments if isinstance(cluster, AssigningCluster) else None
