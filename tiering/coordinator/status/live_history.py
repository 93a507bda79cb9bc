"""Stored history with the progress of the rounds that run, which is in memory only."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from tiering.access.grants import Access
from tiering.coordinator.decisions.records import ErrorRecord, EventRecord, LakeCommitRecord, RoundRecord, TableRecord
from tiering.coordinator.memory.history import History, HistoryKind, HistoryRange, TablePathOrNone
from tiering.model.names import NAME_LIMIT

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
        return (self._with_progress(row) for row in self._visible(self._stored.read_rounds(within)))

    def read_commits(self, wanted: HistoryRange) -> Iterator[LakeCommitRecord]:
        return self._visible(self._stored.read_commits(self._within(HistoryKind.COMMITS, wanted)))

    def read_errors(self, wanted: HistoryRange) -> Iterator[ErrorRecord]:
        return self._visible(self._stored.read_errors(self._within(HistoryKind.ERRORS, wanted)))

    def read_events(self, wanted: HistoryRange) -> Iterator[EventRecord]:
        return self._visible(self._stored.read_events(self._within(HistoryKind.EVENTS, wanted)))

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

    def _with_progress(self, row: RoundRecord) -> RoundRecord:
        record = self._records.get(row.table_id)
        running = None if record is None else record.running
        return running if running is not None and (running.round_id, running.state) == (row.round_id, row.state) else row

    def _visible(self, rows: Iterator[RowT]) -> Iterator[RowT]:
        if self._access.is_unrestricted:
            return rows
        return (row for row in rows if self._access.sees_name(row.database_name, row.table_name))
