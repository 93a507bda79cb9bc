"""What a coordinator's folder tells while no coordinator is asked: the records of its store, and the cluster's metadata now.

Nothing is written, and no coordinator is disturbed. What only a running one knows is unknown (NULL): heartbeats, whether
tierers are connected, which CALLs are open. Tables that it has not met yet are not tiered yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

from tiering.clock import Clock
from tiering.cluster.base import LogOffsets
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.sql_store import SqlStore
from tiering.coordinator.observing.lag import Observation, Pending, look, partition_count, pending
from tiering.coordinator.status.live_view import StatusSource, View
from tiering.coordinator.status.status_columns import StatusColumns
from tiering.errors import UnknownTable
from tiering.model.tables import TableInfo


class OfflineSource(StatusSource, LogOffsets, Protocol):
    """What is read of a cluster."""


def offline_view(store: SqlStore, cluster: OfflineSource, clock: Clock) -> View:
    """The moment of the call. Raises StoreError."""
    now = clock.now()
    # Stored deadlines are wall times to whoever did not see them made (`timebase`).
    moment = Moment(now, now)
    records = {record.table_id: replace(record, heartbeat_time=None) for record in store.load()}
    return View(moment, records, cluster, _Looks(cluster, moment), StatusColumns(), tierer_connected=None, validations=store.validations)


class _Looks:
    """Observations, made when one is asked for and kept: a view shows one moment."""

    def __init__(self, cluster: OfflineSource, moment: Moment) -> None:
        self._cluster = cluster
        self._moment = moment
        self._seen: dict[int, Observation | None] = {}

    @cached_property
    def _infos(self) -> dict[int, TableInfo]:
        return {info.table_id: info for info in self._cluster.tables()}

    @property
    def generation(self) -> int:
        """One moment is all there is."""
        return 0

    def pending(self, record: TableRecord) -> Pending | None:
        """What the lake lacks; None for a table that was dropped since the coordinator wrote."""
        seen = self._look(record)
        return None if seen is None else pending(seen, record.lake.offsets)

    def partitions(self, table_id: int) -> int | None:
        seen = self._seen.get(table_id)
        return None if seen is None else partition_count(seen)

    def refresh_for_a_look(self, records: Sequence[TableRecord]) -> None:
        """So that `partitions` knows them."""
        for record in records:
            self._look(record)

    def _look(self, record: TableRecord) -> Observation | None:
        if record.table_id not in self._seen:
            self._seen[record.table_id] = self._observed(record)
        return self._seen[record.table_id]

    def _observed(self, record: TableRecord) -> Observation | None:
        info = self._infos.get(record.table_id)
        if info is None:
            return None
        try:
            return look(self._cluster, info, record.lake.offsets, lambda: self._moment.wall)
        except UnknownTable:  # dropped a moment ago
            return None
