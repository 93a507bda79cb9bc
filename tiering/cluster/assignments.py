"""Protocols for a cluster that assigns its tables to several tiering services: Apache Fluss in SHARED mode.

This deployment is one of the services. The coordinator asks for tables while its tierers have room, renews the assignments that it has, and
reports how they ended.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tiering.cluster.base import TableCatalog
from tiering.errors import LakeRecordUnreadable
from tiering.model.assignments import AssignmentAnswer, AssignmentReport, ServiceStatus
from tiering.model.tables import TableInfo


@runtime_checkable
class TableAssignments(Protocol):
    """The cluster's scheduler. At most one thread uses it at a time."""

    def session(self) -> str:
        """Returns the name of the open session; opens a session first if none is open. Assignments of an earlier session are void.

        Raises ClusterUnavailable.
        """

    def heartbeat(self, session: str, report: AssignmentReport) -> AssignmentAnswer:
        """Sends a report to the cluster and asks for a table. The implementation never repeats the call itself.

        Raises ClusterUnavailable, also if `session` is over. The cluster may have processed the report nevertheless.
        """


@runtime_checkable
class AssigningCluster(Protocol):
    """A cluster that can assign tables, as the coordinator sees it."""

    @property
    def assignments(self) -> TableAssignments | None:
        """The cluster's scheduler; None if this deployment schedules its tables itself."""


def service_status(cluster: TableCatalog, table: TableInfo) -> ServiceStatus:
    """Returns the tiering status of a table that is assigned to another service. Raises ClusterUnavailable, UnknownTable.

    It is derived from the lake snapshot that the service reported. Fluss 0.9 tells nothing else about other services.
    """
    try:
        return ServiceStatus("derived", cluster.lake_snapshot(table))
    except LakeRecordUnreadable:  # the record's file does not exist any more; the next base check repairs the record
        return ServiceStatus("derived", None)


def assignments_of(cluster: object) -> TableAssignments | None:
    """Returns the cluster's scheduler; None for a cluster that has none or leaves the scheduling to this deployment."""
    return cluster.assignments if isinstance(cluster, AssigningCluster) else None
