"""The health of lake tables for readers, observed in the background and kept in memory. Readers get the last observation.

An observation reads the manifests of the table's newest snapshot and lists its metadata files, so it may take long. A table is observed
after its snapshot changed, and sometimes for changes of other writers. Observations take a bounded share of the time, per table and in
total.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.discovery import Discovery
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.lake.health.measure import MeasuredLake
from tiering.lake.health.table_health import HealthObservation
from tiering.model.tables import TableInfo
from tiering.throttle import Throttling, unthrottled
from tiering.union_read.plan import LakeOpener

_log = structlog.get_logger(__name__)

FRESH_FOR = timedelta(minutes=10)
"""Age after which an unchanged table is observed again. Without a commit of Lakeward, only other writers change files and metadata."""

FAILED_FOR = timedelta(minutes=10)
"""Pause after a failed observation, which may have taken long. Health is only displayed."""

LEAST_REST = timedelta(seconds=10)
"""Shortest time between two observations of a table."""

TABLE_SHARE = 0.01
"""Largest share of the time that observations of one table take."""


class HealthSource(Protocol):
    """The source of lake tables' health for a view of the coordinator."""

    def observation(self, record: TableRecord) -> HealthObservation | None:
        """Returns the latest observation of the lake table; None if there is none."""


@dataclass(frozen=True)
class _LastObservation:
    """The latest observation of a table: its snapshot, its time (steady), and when the next one may begin."""

    snapshot_id: int
    observed_at: datetime
    next_at: datetime


class LakeHealthObserver:
    """Keeps the health of lake tables by table id. One thread calls `observe`; any thread may read."""

    def __init__(self, table_records: TableRecords, lakes: Lakes, discovery: Discovery) -> None:
        self._table_records = table_records
        self._lakes = lakes
        self._discovery = discovery
        self._observations: dict[int, HealthObservation] = {}
        self._last_observations: dict[int, _LastObservation] = {}

    def observation(self, record: TableRecord) -> HealthObservation | None:
        """Returns the latest observation of the lake table without reading the lake; None if there is none."""
        return self._observations.get(record.table_id)

    def observe(self, throttle: Throttling = unthrottled) -> None:
        """Observes each lake table that changed since its last observation: one background pass."""
        live = self._table_records.live()
        self._forget(set(self._last_observations).difference(record.table_id for record in live))
        for record in live:
            if self._is_due(record):
                self._observe(record)
            if not throttle():
                return

    def _is_due(self, record: TableRecord) -> bool:
        if record.lake.snapshot_id is None:
            return False
        last, now = self._last_observations.get(record.table_id), self._table_records.now().steady
        if last is None:
            return True
        is_changed = last.snapshot_id != record.lake.snapshot_id or now - last.observed_at >= FRESH_FOR
        return is_changed and now >= last.next_at

    def _observe(self, record: TableRecord) -> None:
        table_id, snapshot_id, begin = record.table_id, record.lake.snapshot_id, self._table_records.now()
        info = self._discovery.infos.get(table_id)
        if info is None or snapshot_id is None:
            return
        try:
            observation = observed_health(self._lakes.of, record, info, begin.wall)
        except Exception as error:  # unexpected metadata of one table must not stop the pass; rounds report such an error
            _log.debug("the lake table's health could not be observed", table=str(record.path), error=str(error))
            observation, delay = None, FAILED_FOR
        else:
            delay = max(LEAST_REST, (self._table_records.now().steady - begin.steady) / TABLE_SHARE)
        if observation is not None:
            self._observations[table_id] = observation
        self._last_observations[table_id] = _LastObservation(snapshot_id, begin.steady, self._table_records.now().steady + delay)

    def _forget(self, table_ids: Collection[int]) -> None:
        for table_id in table_ids:
            self._last_observations.pop(table_id, None)
            self._observations.pop(table_id, None)


def observed_health(open_lake: LakeOpener, record: TableRecord, info: TableInfo, now: datetime) -> HealthObservation | None:
    """Observes the lake table now; None if lakes of its format do not measure health. Raises the opener's errors, LakeUnavailable."""
    lake = open_lake(record.lake_format)
    if not isinstance(lake, MeasuredLake):
        return None
    view = lake.view(record.path)
    return HealthObservation(now) if view is None else HealthObservation.of(now, lake.measure(info, view))
