"""Stored history with the progress of the rounds that run, which is in memory only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from tiering.access.grants import Access
from tiering.coordinator.decisions.records import ErrorRecord, EventRecord, LakeCommitRecord, RoundRecord, TableRecord
from tiering.coordinator.memory.history import History, HistoryRange

RowT = TypeVar("RowT", RoundRecord, LakeCommitRecord, ErrorRecord, EventRecord)


class LiveHistory:
    """`History` beside the records of one moment, of the tables that the reader may know of."""

    def __init__(self, stored: History, records: Mapping[int, TableRecord], access: Access) -> None:
        self._stored = stored
        self._records = records
        self._access = access

    def read_rounds(self, wanted: HistoryRange) -> Iterator[RoundRecord]:
        return (self._with_progress(row) for row in self._visible(self._stored.read_rounds(wanted)))

    def read_commits(self, wanted: HistoryRange) -> Iterator[LakeCommitRecord]:
        return self._visible(self._stored.read_commits(wanted))

    def read_errors(self, wanted: HistoryRange) -> Iterator[ErrorRecord]:
        return self._visible(self._stored.read_errors(wanted))

    def read_events(self, wanted: HistoryRange) -> Iterator[EventRecord]:
        return self._visible(self._stored.read_events(wanted))

    def _with_progress(self, row: RoundRecord) -> RoundRecord:
        record = self._records.get(row.table_id)
        running = None if record is None else record.running
        return running if running is not None and (running.round_id, running.state) == (row.round_id, row.state) else row

    def _visible(self, rows: Iterator[RowT]) -> Iterator[RowT]:
        if self._access.is_unrestricted:
            return rows
        return (row for row in rows if self._access.sees_name(row.database_name, row.table_name))
