"""Sets of table ids (waiting, running, failing, live, assigned) and ids by path, updated with each change of a record.

They answer a question without a walk over all records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiering.coordinator.decisions.backlog import runs_for_throughput
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.waiting.waiting_queue import WaitingQueue
from tiering.model.states import TableState
from tiering.model.tables import TablePath


def waits(record: TableRecord, *, needs_turn: bool = False) -> bool:
    """Returns whether the next request may get this table. `needs_turn`: only if the cluster has assigned the table to us."""
    return record.state is TableState.PENDING and record.pause is None and (record.has_turn or not needs_turn)


class RecordIndex:
    """Sets of table ids. One thread at a time changes it and uses the queue; any thread may read the other sets.

    `needs_turn` is that of `waits`, `backlog_apart` that of `WaitingQueue`.
    """

    def __init__(self, records: Iterable[TableRecord] = (), *, needs_turn: bool = False, backlog_apart: bool = True) -> None:
        self._needs_turn = needs_turn
        self.waiting: set[int] = set()
        self.queue = WaitingQueue(backlog_apart=backlog_apart)
        """The tables in `waiting`, in queue order."""
        self.running: set[int] = set()
        self.failing: set[int] = set()
        self.assigned: set[int] = set()
        self.upkeep_requested: set[int] = set()
        """Tables for which callers requested upkeep."""
        self.live: set[int] = set()
        """Tables that have to be fresh: neither in backlog nor paused."""
        self._by_path: dict[tuple[str, str], int] = {}
        self.renew(records, {})

    def renew(self, records: Iterable[TableRecord], before: Mapping[int, TableRecord]) -> None:
        """Takes over these records. `before` has the records that they replace."""
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
        """Number of lake tables."""
        return len(self._by_path)

    def by_path(self, path: TablePath) -> int | None:
        """Returns the id of the lake table at this path; None if there is none."""
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
