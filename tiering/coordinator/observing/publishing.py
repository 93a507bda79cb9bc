"""Publishes lake tables in a second catalog, in the background. No round waits for it, and no failure of it reaches a round.

What is to be done follows from the two catalogs alone: a table is published if the second catalog has another version than the lake's own
catalog. So a restart loses nothing, and of several commits only the newest version is published. Only the coordinator that leads publishes;
it asks its store for the lead right before each change. A change that a former leader sends later is repaired by the next check.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.retries import backoff_ms
from tiering.coordinator.memory.store import Writes
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.errors import AlreadyExists, Fenced, LakewardError
from tiering.lake.health.table_health import Publication
from tiering.lake.maintenance import SecondCatalog
from tiering.lake.outside_errors import describe
from tiering.throttle import Throttling, unthrottled

_log = structlog.get_logger(__name__)

CHECKED_FOR = timedelta(minutes=1)
"""Age after which a published table is compared again, because other writers commit, too."""

FAILURES_OF_A_PASS = 3
"""After this many tables that could not be published, the second catalog probably does not answer, and the pass ends."""


@dataclass(frozen=True)
class _Table:
    """State of one lake table in the second catalog, as far as the coordinator compared it.

    `snapshot_id` is the newest tiering commit that was published; None if none is known. `next_at` is the steady time of the next check.
    """

    snapshot_id: int | None = None
    published_time: datetime | None = None
    first_snapshot_id: int | None = None
    """The newest tiering commit when this coordinator saw the table first."""
    behind_since: datetime | None = None
    """Commit time of the first tiering commit that is not published, as far as this coordinator knows."""
    error: str | None = None
    failures: int = 0
    next_at: datetime | None = None


class Publisher:
    """Publishes lake tables. One thread calls `publish`; any thread may read."""

    def __init__(self, table_records: TableRecords, lakes: Lakes, catalog: SecondCatalog | None) -> None:
        self._table_records = table_records
        self._lakes = lakes
        self._catalog = catalog
        self._tables: dict[int, _Table] = {}

    @property
    def is_on(self) -> bool:
        """Whether there is a second catalog."""
        return self._catalog is not None

    def failing(self) -> int:
        """Returns the number of lake tables whose last attempt failed."""
        return sum(table.error is not None for table in list(self._tables.values()))

    def publication(self, record: TableRecord, now: datetime) -> Publication | None:
        """Returns what the second catalog has of the lake table; None without a second catalog. It does no I/O."""
        if self._catalog is None:
            return None
        if record.lake_format != self._catalog.lake_format:
            return Publication(error=f"not published: a catalog of Iceberg tables cannot have a table of the format {record.lake_format}")
        table = self._tables.get(record.table_id)
        if table is None:
            return Publication()
        return Publication(table.snapshot_id, table.published_time, _lag_ms(table, record, now), table.error)

    def publish(self, throttle: Throttling = unthrottled) -> None:
        """Publishes the tables with new commits, then compares the others that are due: one background pass. Raises Fenced, StoreError."""
        catalog = self._catalog
        if catalog is None:
            return
        live = [record for record in self._table_records.live() if record.lake_format == catalog.lake_format]
        for table_id in set(self._tables).difference(record.table_id for record in live):
            del self._tables[table_id]
        due = [record for record in live if record.lake.snapshot_id is not None and self._is_due(record)]
        failures = 0
        for record in sorted(due, key=lambda record: not self._is_changed(record)):
            failures += not self._publish(catalog, record)
            if failures >= FAILURES_OF_A_PASS or not throttle():
                return

    def _is_changed(self, record: TableRecord) -> bool:
        return self._tables.get(record.table_id, _Table()).snapshot_id != record.lake.snapshot_id

    def _is_due(self, record: TableRecord) -> bool:
        table = self._tables.get(record.table_id)
        if table is None:
            self._tables[record.table_id] = _Table(first_snapshot_id=record.lake.snapshot_id)
            return True
        if table.behind_since is None and record.lake.snapshot_id not in (table.snapshot_id, table.first_snapshot_id):
            self._tables[record.table_id] = replace(table, behind_since=record.last_tiered_time)
        is_new = table.failures == 0 and self._is_changed(record)
        return is_new or table.next_at is None or self._table_records.now().steady >= table.next_at

    def _publish(self, catalog: SecondCatalog, record: TableRecord) -> bool:
        """Publishes one table. Returns False if the second catalog or the lake did not allow it."""
        table, begin = self._tables[record.table_id], self._table_records.now()
        try:
            view = self._lakes.of(record.lake_format).view(record.path)
            if view is not None:
                catalog.publish(view, self._check_lead)
        except Fenced:
            raise
        except Exception as error:  # unexpected metadata of one table must not stop the pass
            self._tables[record.table_id] = self._failed(table, error, begin)
            return isinstance(error, AlreadyExists)
        if table.error is not None:
            _log.info("the lake table is published again", table=str(record.path), catalog=catalog.name)
        published_id = None if view is None else record.lake.snapshot_id
        self._tables[record.table_id] = _Table(published_id, begin.wall, record.lake.snapshot_id, next_at=begin.steady + CHECKED_FOR)
        return True

    def _failed(self, table: _Table, error: Exception, begin: Moment) -> _Table:
        if isinstance(error, LakewardError):
            text = f"{error.error_class}: {error.message}" + (f" {error.hint}" if error.hint else "")
        else:
            text = describe(error)
        if text != table.error:
            _log.warning("a lake table could not be published in the second catalog; it is retried", error=text)
        failures = table.failures + 1
        wait_ms = backoff_ms(failures, 0.0, self._table_records.options)
        return replace(table, error=text, failures=failures, next_at=self._table_records.now().after(wait_ms))

    def _check_lead(self) -> None:
        """Raises Fenced if another coordinator took over the store; StoreError."""
        if self._table_records.fenced is not None:
            raise self._table_records.fenced
        self._table_records.store.apply(self._table_records.epoch, Writes())


def _lag_ms(table: _Table, record: TableRecord, now: datetime) -> int | None:
    """Returns for how long the second catalog has lacked a commit: 0 if it lacks none, and None if that is unknown."""
    since = table.behind_since
    if since is None:
        if table.snapshot_id is None and record.lake.snapshot_id == table.first_snapshot_id:
            return None
        if table.snapshot_id == record.lake.snapshot_id:
            return 0
        since = record.last_tiered_time
    return None if since is None else max(0, (now - since) // timedelta(milliseconds=1))
