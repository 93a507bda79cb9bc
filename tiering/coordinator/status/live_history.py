"""Stored history with the progress of the rounds that run, which is in memory only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from tiering.access.grants import Access
from tiering.access.privileges import Privilege
from tiering.coordinator.decisions.records import ErrorRecord, EventRecord, LakeCommitRecord, RoundRecord, TableRecord
from tiering.coordinator.memory.history import History, HistoryKind, HistoryRange, TablePathOrNone
from tiering.model.names import NAME_LIMIT
from tiering.model.refused_records import without_record
from tiering.model.tables import TablePath

RowT = TypeVar("RowT", RoundRecord, LakeCommitRecord, ErrorRecord, EventRecord)

MOST_PATHS = 10_000
"""Tables that a query names: databases limit its parameters. Somebody who may know of more finds visible rows soon in any case."""


class LiveHistory:
    """`History` beside the records of one moment, of the tables that the reader may know of."""

    def __init__(self, stored: History, records: Mapping[int, TableRecord], access: Access) -> None:
        self._stored = stored
        self._records = records
        self._access = access

    def paths_of(self, kind: HistoryKind) -> Collection[TablePathOrNone]:
        return self._visible_paths(self._stored.paths_of(kind))

    def read_rounds(self, wanted: HistoryRange) -> Iterator[RoundRecord]:
        within = self._within(HistoryKind.ROUNDS, wanted)
        rows = (self._with_progress(row) for row in self._visible(self._stored.read_rounds(within)))
        return (row if row.error is None or self._reads(row) else _round_without_values(row) for row in rows)

    def read_commits(self, wanted: HistoryRange) -> Iterator[LakeCommitRecord]:
        return self._visible(self._stored.read_commits(self._within(HistoryKind.COMMITS, wanted)))

    def read_errors(self, wanted: HistoryRange) -> Iterator[ErrorRecord]:
        rows = self._visible(self._stored.read_errors(self._within(HistoryKind.ERRORS, wanted)))
        return (row if self._reads(row) else replace(row, message=without_record(row.message)) for row in rows)

    def read_events(self, wanted: HistoryRange) -> Iterator[EventRecord]:
        rows = self._visible(self._stored.read_events(self._within(HistoryKind.EVENTS, wanted)))
        rows = (row if self._reads(row) else _event_without_values(row) for row in rows)
        return rows if self._access.sees_numbers else (replace(row, event_id=None) for row in rows)

    def _within(self, kind: HistoryKind, wanted: HistoryRange) -> HistoryRange:
        """The range without the tables that the reader may not know of: the store reads no row of theirs, however many there are."""
        if self._access.is_unrestricted:
            return wanted
        if wanted.database_name is not None and wanted.table_name is not None:
            paths: Collection[TablePathOrNone] = [(wanted.database_name, wanted.table_name)]
        else:
            paths = self._stored.paths_of(kind)
        visible = self._visible_paths(paths)
        if len(visible) == len(paths) or len(visible) > MOST_PATHS:
            return wanted
        return replace(wanted, paths=frozenset(visible))

    def _visible_paths(self, paths: Collection[TablePathOrNone]) -> list[TablePathOrNone]:
        # A reader may ask for a name of any length; policies match the whole of it.
        named = [path for path in paths if all(name is not None and len(name) <= NAME_LIMIT for name in path)]
        databases, names = (pa.array([path[at] for path in named], pa.string()) for at in (0, 1))
        visible = [path for path, is_visible in zip(named, self._access.visible(databases, names), strict=True) if is_visible]
        about_none: list[TablePathOrNone] = [(None, None)]
        return [*visible, *(about_none if (None, None) in paths and self._access.sees_name(None, None) else [])]

    def _reads(self, row: RoundRecord | ErrorRecord | EventRecord) -> bool:
        """Whether the caller may see values of the table's rows: an older version wrote some into messages and events."""
        if self._access.is_unrestricted or row.database_name is None or row.table_name is None:
            return True
        return self._access.may_table(Privilege.SELECT, TablePath(row.database_name, row.table_name))

    def _with_progress(self, row: RoundRecord) -> RoundRecord:
        record = self._records.get(row.table_id)
        running = None if record is None else record.running
        return running if running is not None and (running.round_id, running.state) == (row.round_id, row.state) else row

    def _visible(self, rows: Iterator[RowT]) -> Iterator[RowT]:
        if self._access.is_unrestricted:
            return rows
        return (row for row in rows if self._access.sees_name(row.database_name, row.table_name))


def _round_without_values(row: RoundRecord) -> RoundRecord:
    return row if row.error is None else replace(row, error=replace(row.error, message=without_record(row.error.message)))


def _event_without_values(row: EventRecord) -> EventRecord:
    details = {name: value for name, value in row.details.items() if row.event_type != "RECORD_SKIPPED" or name != "value"}
    return replace(row, message=without_record(row.message), details=details)
