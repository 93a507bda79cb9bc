"""Ids of the tables that wait, run, fail, are live, are assigned by the cluster, and of each path, kept in step with the records.

No question walks over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiering.coordinator.decisions.backlog import runs_for_throughput
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.waiting.waiting_queue import WaitingQueue
from tiering.model.states import TableState
from tiering.model.tables import TablePath


def waits(record: TableRecord, *, needs_turn: bool = False) -> bool:
    """Whether the next request may get this table. `needs_turn`: only if the cluster assigned it."""
    return record.state is TableState.PENDING and record.pause is None and (record.has_turn or not needs_turn)


class RecordIndex:
    """Ids of tables. One thread at a time changes it and uses the queue, any may read the rest.

    `needs_turn`: as of `waits`; `backlog_apart`: as of `WaitingQueue`.
    """

    def __init__(self, records: Iterable[TableRecord] = (), *, needs_turn: bool = False, backlog_apart: bool = True) -> None:
        self._needs_turn = needs_turn
        self.waiting: set[int] = set()
        self.queue = WaitingQueue(backlog_apart=backlog_apart)
        """Those of `waiting`, in their order."""
        self.running: set[int] = set()
        self.failing: set[int] = set()
        self.assigned: set[int] = set()
        self.upkeep_requested: set[int] = set()
        """Tables of which callers want upkeep."""
        self.live: set[int] = set()
        """Tables that are to be fresh: not in backlog, and not paused."""
        self._by_path: dict[tuple[str, str], int] = {}
        self.renew(records, {})

    def renew(self, records: Iterable[TableRecord], before: Mapping[int, TableRecord]) -> None:
        """Takes over these records; `before` has the records that they replace."""
        for record in records:
            self._queue(record)
            _put(self.running, record.table_id, record.running is not None)
            _put(self.failing, record.table_id, record.state is not None and record.consecutive_failures > 0)
            _put(self.assigned, record.table_id, record.assignment is not None)
            _put(self.upkeep_requested, record.table_id, record.state is not None and bool(record.upkeep.requests))
            is_live = record.state is not None and record.pause is None and not runs_for_throughput(record)
            _put(self.live, record.table_id, is_live)
            self._move(record, before.get(record.table_id))

    @property
    def tables(self) -> int:
        """How many lake tables there are."""
        return len(self._by_path)

    def by_path(self, path: TablePath) -> int | None:
        """The id of the lake table at this path; None = there is none."""
        return self._by_path.get((path.database_name, path.table_name))

    def _queue(self, record: TableRecord) -> None:
        if waits(record, needs_turn=self._needs_turn):
            self.waiting.add(record.table_id)
            self.queue.put(record)
        elif record.table_id in self.waiting:
            self.waiting.remove(record.table_id)
            self.queue.drop(record.table_id)

    def _move(self, record: TableRecord, before: TableRecord | None) -> None:
        path = None if record.state is None else (record.database_name, record.table_name)
        former = None if before is None else (before.database_name, before.table_name)
        if former is not None and former != path and self._by_path.get(former) == record.table_id:
            del self._by_path[former]
        if path is not None:
            self._by_path[path] = record.table_id


def _put(ids: set[int], table_id: int, member: bool) -> None:
    if member:
        ids.add(table_id)
    else:
        ids.discard(table_id)
