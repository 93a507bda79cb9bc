"""A view of a coordinator's data folder without its coordinator: the records in its store, and the cluster's present metadata.

It writes nothing and disturbs no coordinator. Facts that only a running coordinator knows are NULL: heartbeats, whether tierers are
connected, and open CALLs. Tables that the coordinator has not discovered yet are missing.
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
from tiering.coordinator.observing.lag import Lag, Observation, lag_of, observe_log
from tiering.coordinator.observing.lake_health import observed_health
from tiering.coordinator.status.live_view import StatusSource, View
from tiering.coordinator.status.status_columns import StatusColumns
from tiering.errors import LakewardError, UnknownTable
from tiering.lake.health.table_health import HealthObservation
from tiering.model.tables import TableInfo
from tiering.union_read.plan import LakeOpener


class OfflineSource(StatusSource, LogOffsets, Protocol):
    """The part of a cluster that an offline view reads."""


def offline_view(store: SqlStore, cluster: OfflineSource, clock: Clock, open_lake: LakeOpener | None = None) -> View:
    """Returns a view of this moment. Without `open_lake`, the health of lake tables is unknown. Raises StoreError."""
    now = clock.now()
    # Only the process that computed stored deadlines reads them as steady times; for any other process they are wall times (`moment`).
    moment = Moment(now, now)
    records = {record.table_id: replace(record, heartbeat_time=None) for record in store.load()}
    lags = _OfflineLags(cluster, moment)
    return View(
        moment,
        records,
        cluster,
        lags,
        StatusColumns(),
        store,
        _OfflineHealth(lags, moment, open_lake),
        tierer_connected=None,
        validations=store.validations,
        proofs=store.proofs,
        open_lake=open_lake,
    )


class _OfflineLags:
    """Observes a table when its lag is first read, and keeps the observation, because a view shows one moment."""

    generation = 0
    """Never changes, because there is only one moment."""

    def __init__(self, cluster: OfflineSource, moment: Moment) -> None:
        self._cluster = cluster
        self._moment = moment
        self._observations: dict[int, Observation | None] = {}

    @cached_property
    def infos(self) -> dict[int, TableInfo]:
        """The cluster's tables by id."""
        return {info.table_id: info for info in self._cluster.tables()}

    def lag(self, record: TableRecord) -> Lag | None:
        """Returns the table's lag; None if the table was dropped after the coordinator wrote its record."""
        observation = self._observe(record)
        return None if observation is None else lag_of(observation, record.lake.offsets)

    def observation(self, table_id: int) -> Observation | None:
        """Returns the observation that `lag` or `refresh` made; None if there is none."""
        return self._observations.get(table_id)

    def refresh(self, records: Sequence[TableRecord]) -> None:
        """Observes the tables."""
        for record in records:
            self._observe(record)

    def _observe(self, record: TableRecord) -> Observation | None:
        if record.table_id not in self._observations:
            self._observations[record.table_id] = self._new_observation(record)
        return self._observations[record.table_id]

    def _new_observation(self, record: TableRecord) -> Observation | None:
        info = self.infos.get(record.table_id)
        if info is None:
            return None
        try:
            return observe_log(self._cluster, info, record.lake.offsets, lambda: self._moment.wall)
        except UnknownTable:  # the table was just dropped
            return None


class _OfflineHealth:
    """Reads a lake table when its health is first requested, and keeps the observation, because a view shows one moment."""

    def __init__(self, lags: _OfflineLags, moment: Moment, open_lake: LakeOpener | None) -> None:
        self._lags = lags
        self._moment = moment
        self._open_lake = open_lake
        self._observations: dict[int, HealthObservation | None] = {}

    def observation(self, record: TableRecord) -> HealthObservation | None:
        """Returns the health; None for a table without a commit, and for a lake table that cannot be read."""
        if record.table_id not in self._observations:
            self._observations[record.table_id] = self._observe(record)
        return self._observations[record.table_id]

    def _observe(self, record: TableRecord) -> HealthObservation | None:
        info = self._lags.infos.get(record.table_id)
        if self._open_lake is None or info is None or record.lake.snapshot_id is None:
            return None
        try:
            return observed_health(self._open_lake, record, info, self._moment.wall)
        except LakewardError:
            return None
