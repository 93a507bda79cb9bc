"""Stored history, with the progress of running rounds, which is only in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
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
"""Upper bound of tables that a query names, because databases limit its parameters.

A reader of more tables soon finds visible rows anyway.
"""


class LiveHistory:
    """`History` with the records of one moment, restricted to the tables that the reader may see."""

    def __init__(self, stored: History, records: Mapping[int, TableRecord], access: Access) -> None:
        self._stored = stored
        self._records = records
        self._access = access

    def paths_of(self, kind: HistoryKind) -> Collection[TablePathOrNone]:
        return self._visible_paths(self._stored.paths_of(kind))

    def oldest_rounds(self, paths: Collection[TablePathOrNone]) -> Mapping[TablePathOrNone, datetime]:
        return self._stored.oldest_rounds(self._visible_paths(paths))

    def read_rounds(self, history_range: HistoryRange) -> Iterator[RoundRecord]:
        within = self._within(HistoryKind.ROUNDS, history_range)
        rows = (self._with_progress(row) for row in self._visible(self._stored.read_rounds(within)))
        return (row if row.error is None or self._reads(row) else _round_without_values(row) for row in rows)

    def read_commits(self, history_range: HistoryRange) -> Iterator[LakeCommitRecord]:
        return self._visible(self._stored.read_commits(self._within(HistoryKind.COMMITS, history_range)))

    def read_errors(self, history_range: HistoryRange) -> Iterator[ErrorRecord]:
        rows = self._visible(self._stored.read_errors(self._within(HistoryKind.ERRORS, history_range)))
        return (row if self._reads(row) else replace(row, message=without_record(row.message)) for row in rows)

    def read_events(self, history_range: HistoryRange) -> Iterator[EventRecord]:
        rows = self._visible(self._stored.read_events(self._within(HistoryKind.EVENTS, history_range)))
        rows = (row if self._reads(row) else _event_without_values(row) for row in rows)
        return rows if self._access.sees_numbers else (replace(row, event_id=None) for row in rows)

    def _within(self, kind: HistoryKind, history_range: HistoryRange) -> HistoryRange:
        """Returns the range without tables that the reader may not see, so that the store does not read their rows, however many."""
        if self._access.is_unrestricted:
            return history_range
        paths: Collection[TablePathOrNone]
        if history_range.paths is not None:
            paths = history_range.paths
        elif history_range.database_name is not None and history_range.table_name is not None:
            paths = [(history_range.database_name, history_range.table_name)]
        else:
            paths = self._stored.paths_of(kind)
        visible = self._visible_paths(paths)
        if len(visible) == len(paths) or len(visible) > MOST_PATHS:
            return history_range
        return replace(history_range, paths=frozenset(visible))

    def _visible_paths(self, paths: Collection[TablePathOrNone]) -> list[TablePathOrNone]:
        # A reader may filter by a name of any length, and policies match the whole name.
        named = [path for path in paths if all(name is not None and len(name) <= NAME_LIMIT for name in path)]
        databases, names = (pa.array([path[at] for path in named], pa.string()) for at in (0, 1))
        visible = [path for path, is_visible in zip(named, self._access.visible(databases, names), strict=True) if is_visible]
        about_none: list[TablePathOrNone] = [(None, None)]
        return [*visible, *(about_none if (None, None) in paths and self._access.sees_name(None, None) else [])]

    def _reads(self, row: RoundRecord | ErrorRecord | EventRecord) -> bool:
        """Returns whether the caller may see values of the table's rows. An older version wrote some into messages and events."""
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
