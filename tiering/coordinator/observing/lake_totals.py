"""The sizes of lake tables, kept in their records so that they are known after a restart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import structlog

from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.errors import LakewardError

_log = structlog.get_logger(__name__)

FRESH_FOR = timedelta(minutes=10)
"""Age after which an unchanged table is read again. Without a commit of Lakeward, only other writers and compaction change totals."""


FAILED_FOR = timedelta(minutes=1)
"""Pause after a failed read, which may have taken long. Sizes are only displayed."""


class LakeTotals:
    """Reads the rows, bytes and files of lake tables. Times are steady, so a clock that is set back has no effect."""

    def __init__(self, table_records: TableRecords, lakes: Lakes) -> None:
        self._table_records = table_records
        self._lakes = lakes
        self._read_at: dict[int, tuple[int | None, datetime]] = {}
        self._failed_at: dict[int, datetime] = {}

    def renew(self, record: TableRecord) -> None:
        """Reads the lake table if its snapshot is new, or the last read is too old."""
        now, lake = self._table_records.now().steady, record.lake
        if lake.snapshot_id is None:
            return
        snapshot, time = self._read_at.get(record.table_id, (None, now))
        if snapshot == lake.snapshot_id and now - time < FRESH_FOR:
            return
        if now - self._failed_at.get(record.table_id, datetime.min.replace(tzinfo=UTC)) < FAILED_FOR:
            return
        try:
            view = self._lakes.of(record.lake_format).view(record.path)
        except LakewardError as error:
            _log.debug("the lake table's size could not be observed", table=str(record.path), error=error.message)
            self._failed_at[record.table_id] = self._table_records.now().steady
            return
        self._failed_at.pop(record.table_id, None)
        self._read_at[record.table_id] = (lake.snapshot_id, now)
        if view is None:
            return
        with self._table_records.changing():
            latest = self._table_records.get(record.table_id)
            if latest is None:
                return
            measured = replace(latest.lake, records=view.records, size_bytes=view.size_bytes, files=view.files, location=view.location)
            if measured != latest.lake:
                self._table_records.put(Change(latest).update(lake=measured))

    def failed(self, table_id: int) -> bool:
        """Returns whether the latest read failed."""
        return table_id in self._failed_at

    def measured(self, table_id: int, snapshot_id: int) -> None:
        """Notes that the recorded totals are those of this snapshot."""
        self._read_at[table_id] = (snapshot_id, self._table_records.now().steady)

    def forget(self, table_ids: Iterable[int]) -> None:
        """Forgets tables that were dropped."""
        for table_id in table_ids:
            self._read_at.pop(table_id, None)
            self._failed_at.pop(table_id, None)
