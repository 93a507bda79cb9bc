"""A view of a coordinator's data folder without its coordinator: the records of its store, and the cluster's metadata now.

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
from tiering.coordinator.observing.lag import Lag, Observation, lag_of, observe_log, partitions_of
from tiering.coordinator.status.live_view import StatusSource, View
from tiering.coordinator.status.status_columns import StatusColumns
from tiering.errors import UnknownTable
from tiering.model.tables import TableInfo


class OfflineSource(StatusSource, LogOffsets, Protocol):
    """The part of a cluster that an offline view reads."""


def offline_view(store: SqlStore, cluster: OfflineSource, clock: Clock) -> View:
    """A view of this moment. Raises StoreError."""
    now = clock.now()
    # Stored deadlines are wall times to a process other than the one that computed them (`moment`).
    moment = Moment(now, now)
    records = {record.table_id: replace(record, heartbeat_time=None) for record in store.load()}
    return View(
        moment,
        records,
        cluster,
        _OfflineLags(cluster, moment),
        StatusColumns(),
        store,
        tierer_connected=None,
        validations=store.validations,
    )


class _OfflineLags:
    """Observes a table when its lag is first read, and keeps the observation: a view shows one moment."""

    def __init__(self, cluster: OfflineSource, moment: Moment) -> None:
        self._cluster = cluster
        self._moment = moment
        self._observations: dict[int, Observation | None] = {}

    @cached_property
    def _infos(self) -> dict[int, TableInfo]:
        return {info.table_id: info for info in self._cluster.tables()}

    @property
    def generation(self) -> int:
        """Always the same: there is only one moment."""
        return 0

    def lag(self, record: TableRecord) -> Lag | None:
        """None for a table that was dropped since the coordinator wrote its record."""
        observation = self._observe(record)
        return None if observation is None else lag_of(observation, record.lake.offsets)

    def observation(self, table_id: int) -> Observation | None:
        """As `refresh` left it."""
        return self._observations.get(table_id)

    def partition_count(self, table_id: int) -> int | None:
        observation = self._observations.get(table_id)
        return None if observation is None else partitions_of(observation)

    def refresh(self, records: Sequence[TableRecord]) -> None:
        """Observes them, so that `partition_count` knows them."""
        for record in records:
            self._observe(record)

    def _observe(self, record: TableRecord) -> Observation | None:
        if record.table_id not in self._observations:
            self._observations[record.table_id] = self._new_observation(record)
        return self._observations[record.table_id]

    def _new_observation(self, record: TableRecord) -> Observation | None:
        info = self._infos.get(record.table_id)
        if info is None:
            return None
        try:
            return observe_log(self._cluster, info, record.lake.offsets, lambda: self._moment.wall)
        except UnknownTable:  # dropped a moment ago
            return None
