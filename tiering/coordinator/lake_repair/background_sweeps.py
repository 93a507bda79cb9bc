"""Sweeps every lake table on a schedule: one table at a time, with a bounded number of deletions each, and pauses in between.

A table is swept again only if its newest tiering commit has changed since its last sweep, or if that sweep left something for later.
Deletions are an event of the table (`LAKE_SWEPT`).
"""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.lake_repair.sweeper import Sweeper, SweepLimits
from tiering.lake.rules.sweep import Verdict
from tiering.procedures.sweep_lake import SweepLake, SweepResult
from tiering.throttle import Throttling, unthrottled

_log = structlog.get_logger(__name__)

DEAD_ROUNDS_MS = 86_400_000
"""Guard of files of dead rounds: the default of `lakeward sweep`."""

EXPIRED_MS = 3_600_000
"""Guard of expired files: a query that began before the expiry has this long to end."""

MAX_FILES = 1_000
"""Upper bound of deletions of one table in one pass. The next pass continues."""

CALLER = "lakeward"
"""Principal of the events."""

LATER = frozenset({Verdict.EXPIRED_LATELY, Verdict.YOUNG, Verdict.OPEN_ROUND, Verdict.MAY_STILL_LAND})
"""Verdicts that change with time alone."""


@dataclass(frozen=True)
class _LastSweep:
    """The last sweep of a table. `is_over`: it left nothing for later."""

    snapshot_id: int | None
    is_over: bool


class BackgroundSweeps:
    """The scheduled sweeps. They are not thread-safe: one background loop runs them."""

    def __init__(self, parts: CallParts) -> None:
        self._parts = parts
        self._sweeper = Sweeper(parts.table_records, parts.lakes, parts.candidates, parts.cluster.cluster_id, parts.read_snapshots)
        self._last: dict[int, _LastSweep] = {}
        self._failed: dict[int, str] = {}
        """The class of the error of each table's last sweep, which was already logged."""

    def run(self, throttle: Throttling = unthrottled) -> None:
        """Runs one pass over all tables; ends early if `throttle` says so."""
        records = sorted(self._parts.table_records.live(), key=lambda record: record.path)
        self._last = {record.table_id: last for record in records if (last := self._last.get(record.table_id)) is not None}
        self._failed = {record.table_id: error for record in records if (error := self._failed.get(record.table_id)) is not None}
        for record in records:
            if self._is_due(record):
                self._sweep(record, throttle)
                if not throttle():
                    return

    def _is_due(self, record: TableRecord) -> bool:
        last = self._last.get(record.table_id)
        return record.lake.table_uuid is not None and last != _LastSweep(record.lake.snapshot_id, is_over=True)

    def _sweep(self, record: TableRecord, throttle: Throttling) -> None:
        request = SweepLake(record.path, DEAD_ROUNDS_MS, caller=CALLER)
        try:
            result = self._sweeper.sweep_table(request, record, SweepLimits(EXPIRED_MS, MAX_FILES, throttle))
        except errors.LakewardError as error:  # the next pass retries
            if self._failed.get(record.table_id) != error.error_class:
                _log.warning("a lake table was not swept completely; the sweep is retried", table=str(record.path), error=error.message)
            self._failed[record.table_id] = error.error_class
            return
        self._failed.pop(record.table_id, None)
        self._last[record.table_id] = _LastSweep(record.lake.snapshot_id, is_over=_is_over(result))


def _is_over(result: SweepResult) -> bool:
    return result.removed < MAX_FILES and not any(result.kept.get(verdict.value) for verdict in LATER)
