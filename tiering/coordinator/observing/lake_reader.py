"""Reads lake tables for the coordinator, through the same base check as a round (DESIGN 6.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tiering.cluster.base import TableCatalog
from tiering.coordinator.decisions.records import TableRecord
from tiering.lake.base import Lake, LakeView
from tiering.lake.rules.base_check import Base, KnownLake, check_base, needs_living
from tiering.model.tables import TableInfo

LakeOpener = Callable[[str], Lake]
"""Opens the lake of a format, such as `iceberg`."""


class Lakes:
    """Lake tables as they are now. All methods do I/O: never call them under the lock of `TableRecords`."""

    def __init__(self, cluster: TableCatalog, open_lake: LakeOpener) -> None:
        self._cluster = cluster
        self._open = open_lake

    def of(self, lake_format: str) -> Lake:
        """The lake of a format; raises what the opener raises."""
        return self._open(lake_format)

    def known(self, record: TableRecord, info: TableInfo) -> KnownLake:
        """What is remembered of a lake table here and in the cluster. Raises ClusterUnavailable."""
        lake = record.lake
        copies = (lake.recorded, self._cluster.lake_snapshot(info))
        return KnownLake(
            cluster_id=self._cluster.cluster_id,
            table_id=record.table_id,
            lake_table_uuid=lake.table_uuid,
            passed_head=lake.passed_head,
            recorded=tuple(copy for copy in copies if copy is not None),
            path=record.path,
        )

    def with_living(self, known: KnownLake, info: TableInfo, view: LakeView | None) -> KnownLake:
        """`known`, after `view` was read: with the source's partitions if the base check needs them. Raises ClusterUnavailable."""
        if not needs_living(view, known.recorded):
            return known
        return replace(known, living=frozenset(partition.partition_id for partition in self._cluster.partitions(info)))

    def base(self, record: TableRecord, info: TableInfo) -> Base:
        """The lake table as it is now, checked against what is recorded here and in the cluster.

        Raises the permanent errors of the base check, LakeUnavailable, ClusterUnavailable.
        """
        known = self.known(record, info)
        view = self.of(record.lake_format).view(record.path)
        return check_base(view, self.with_living(known, info, view))
