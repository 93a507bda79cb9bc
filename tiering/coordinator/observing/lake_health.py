"""How good lake tables are to read, observed in the background and kept in memory. Readers get what was observed last.

A look reads the manifests of the table's newest snapshot and lists its metadata files, so it may take long. A table is looked at after its
snapshot changed, and now and then for changes of other writers; looks take a bounded share of the time, of a table and of all tables.
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
from tiering.coordinator.observing.lake_reader import LakeOpener, Lakes
from tiering.lake.health.measure import MeasuredLake
from tiering.lake.health.table_health import HealthObservation
from tiering.model.tables import TableInfo
from tiering.pace import Rest, no_rest

_log = structlog.get_logger(__name__)

FRESH_FOR = timedelta(minutes=10)
"""Without a commit of Lakeward, files and metadata change only through other writers."""

FAILED_FOR = timedelta(minutes=10)
"""After a look that failed: it may have taken long, and health is only shown."""

LEAST_REST = timedelta(seconds=10)
"""Time between two looks at a table."""

TABLE_SHARE = 0.01
"""Looks at one table take at most this share of the time."""


class HealthSource(Protocol):
    """Where a view of the coordinator gets the health of lake tables from."""

    def observation(self, record: TableRecord) -> HealthObservation | None:
        """What the latest look at the lake table saw; None = there was no look."""
        ...


@dataclass(frozen=True)
class Look:
    """The latest look at a table: of which snapshot, when (steady time), and until when the table rests."""

    snapshot_id: int
    looked_at: datetime
    rests_until: datetime


class LakeHealthObserver:
    """Keeps the health of lake tables by table id. One thread calls `observe`; any thread reads."""

    def __init__(self, table_records: TableRecords, lakes: Lakes, discovery: Discovery) -> None:
        self._table_records = table_records
        self._lakes = lakes
        self._discovery = discovery
        self._observations: dict[int, HealthObservation] = {}
        self._looks: dict[int, Look] = {}

    def observation(self, record: TableRecord) -> HealthObservation | None:
        """See `HealthSource`. Asks no lake."""
        return self._observations.get(record.table_id)

    def observe(self, rest: Rest = no_rest) -> None:
        """Looks at each lake table that changed since its last look: one pass of the background."""
        live = self._table_records.live()
        self._forget(set(self._looks).difference(record.table_id for record in live))
        for record in live:
            if self._is_due(record):
                self._look(record)
            if not rest():
                return

    def _is_due(self, record: TableRecord) -> bool:
        if record.lake.snapshot_id is None:
            return False
        look, now = self._looks.get(record.table_id), self._table_records.now().steady
        if look is None:
            return True
        is_changed = look.snapshot_id != record.lake.snapshot_id or now - look.looked_at >= FRESH_FOR
        return is_changed and now >= look.rests_until

    def _look(self, record: TableRecord) -> None:
        table_id, snapshot_id, begin = record.table_id, record.lake.snapshot_id, self._table_records.now()
        info = self._discovery.infos.get(table_id)
        if info is None or snapshot_id is None:
            return
        try:
            observation = observed_health(self._lakes.of, record, info, begin.wall)
        except Exception as error:  # a table with unexpected metadata keeps no other table from its look; rounds report it
            _log.debug("the lake table's health could not be observed", table=str(record.path), error=str(error))
            observation, rest = None, FAILED_FOR
        else:
            rest = max(LEAST_REST, (self._table_records.now().steady - begin.steady) / TABLE_SHARE)
        if observation is not None:
            self._observations[table_id] = observation
        self._looks[table_id] = Look(snapshot_id, begin.steady, self._table_records.now().steady + rest)

    def _forget(self, table_ids: Collection[int]) -> None:
        """Forgets tables that were dropped."""
        for table_id in table_ids:
            self._looks.pop(table_id, None)
            self._observations.pop(table_id, None)


def observed_health(open_lake: LakeOpener, record: TableRecord, info: TableInfo, now: datetime) -> HealthObservation | None:
    """Looks at the lake table now; None if lakes of its format tell no health. Raises what the opener raises, LakeUnavailable."""
    lake = open_lake(record.lake_format)
    if not isinstance(lake, MeasuredLake):
        return None
    view = lake.view(record.path)
    return HealthObservation(now) if view is None else HealthObservation.of(now, lake.measure(info, view))
