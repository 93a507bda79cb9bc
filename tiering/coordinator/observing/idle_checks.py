"""Checks tables that are due although their log has nothing new. A check replaces a round without rows (DESIGN 5).

It reads what such a round reads: the lake, with the same base check (DESIGN 6, step 2), and the log. If the lake has all of the log, the
table waits for another freshness, without a round, an event or an epoch. In any other case a round follows, and reports what it finds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from tiering.cluster.base import ClusterOwner
from tiering.coordinator.decisions import table_lifecycle
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.lag import Lag
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.errors import TableBusy
from tiering.planning.plan_splits import plan_round
from tiering.throttle import Throttling, unthrottled

_log = structlog.get_logger(__name__)

PATIENCE = timedelta(seconds=2)
"""A due table gets a round if its check takes longer than this, because lake or cluster hang, or too many tables are due at once."""

PATIENCE_SHARE = 0.5
"""Largest share of the table's freshness that its check may take, so that rows which it finds still arrive in time."""


@dataclass
class DueTable:
    """A table that has waited for its check since a steady time. `needs_round`: the check found work, or failed."""

    since: datetime
    needs_round: bool = False


def patience(record: TableRecord) -> timedelta:
    """Returns how long a due table waits for its check before it gets a round."""
    return min(PATIENCE, timedelta(milliseconds=record.freshness_ms * PATIENCE_SHARE))


class IdleChecks:
    """The tables that wait for a check. Before `start` it accepts none, so that every due table gets a round. It is thread-safe."""

    def __init__(
        self,
        table_records: TableRecords,
        cluster: ClusterOwner,
        lakes: Lakes,
        lag: Callable[[TableRecord], Lag | None],
        table_lock: Callable[[int], AbstractContextManager[None]],
    ) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._lakes = lakes
        self._lag = lag
        self._table_lock = table_lock
        self._lock = threading.Lock()
        self._due: dict[int, DueTable] = {}
        self._is_started = False

    def start(self) -> None:
        """Notes that the coordinator calls `run` regularly from now on."""
        self._is_started = True

    @property
    def are_due(self) -> bool:
        """Whether any table waits for its check."""
        return bool(self._due)

    def takes(self, record: TableRecord) -> bool:
        """Returns whether the due table waits for a check instead of a round. It is asked until the check is done, and is cheap."""
        now = self._table_records.now()
        if not self._is_started or not table_lifecycle.may_be_idle(record, now, self._table_records.options) or self._may_have_news(record):
            return False
        with self._lock:
            waiting = self._due.setdefault(record.table_id, DueTable(now.steady))
            if waiting.needs_round or now.steady - waiting.since > patience(record):
                del self._due[record.table_id]
                return False
        return True

    def may_finish_upkeep(self, record: TableRecord) -> bool:
        """Returns whether the upkeep round of a due table may continue: by the last observation, nothing waits in the log. It is cheap."""
        return self._is_started and record.upkeep_runs and record.call is None and not self._may_have_news(record)

    def run(self, throttle: Throttling = unthrottled) -> None:
        """Checks the tables that wait now."""
        with self._lock:
            table_ids = [table_id for table_id, waiting in self._due.items() if not waiting.needs_round]
        for table_id in table_ids:
            self._check(table_id)
            if not throttle():
                return

    def _may_have_news(self, record: TableRecord) -> bool:
        """Returns whether rows wait, or the log was not observed yet. After a start, a round finds out sooner than an observation."""
        lag = self._lag(record)
        return lag is None or lag.records > 0

    def _check(self, table_id: int) -> None:
        with suppress(TableBusy), self._table_lock(table_id):  # a busy table is checked the next time, or gets a round
            record, moment = self._table_records.get(table_id), self._table_records.now()
            if record is None:
                self._forget(table_id)
                return
            try:
                is_idle, head = self._looks_idle(record)
            except Exception as error:  # the round that follows reports this error
                _log.debug("an idle table gets a round, since its check failed", table=str(record.path), error=str(error))
                is_idle, head = False, None
            if is_idle:
                self._store_idle(record, moment, head)
            else:
                with self._lock:
                    if (waiting := self._due.get(table_id)) is not None:  # otherwise it has a round already
                        waiting.needs_round = True

    def _looks_idle(self, record: TableRecord) -> tuple[bool, int | None]:
        """Returns whether a round would find nothing to do, and the head of the lake table.

        The log is read first, so that rows which arrive during the check are left to the next check. Raises the errors that a round would
        report.
        """
        info = self._cluster.table(record.path)
        if info.table_id != record.table_id or info.refusal is not None:
            return False, None
        offsets = self._cluster.offsets(info)
        is_recorded = self._lakes.is_recorded_by_cluster(info)
        base = self._lakes.base(record, info)
        partitions = self._cluster.partitions(info) if info.partition_keys else ()
        if base.needs_commit or plan_round(info, base.ranges, offsets, partitions).splits:
            return False, None
        if base.view is None:
            return True, None
        if base.ahead or (base.marker is not None and not is_recorded) or self._lakes.lost_by_log(info, base) is not None:
            return False, None
        return True, base.view.head_identity

    def _store_idle(self, record: TableRecord, looked_at: Moment, head: int | None) -> None:
        records = self._table_records
        with records.changing():
            latest = records.get(record.table_id)
            if latest is not None and latest.lake is record.lake and table_lifecycle.may_be_idle(latest, records.now(), records.options):
                records.put(table_lifecycle.found_idle(latest, looked_at, head))
        self._forget(record.table_id)

    def _forget(self, table_id: int) -> None:
        with self._lock:
            self._due.pop(table_id, None)
