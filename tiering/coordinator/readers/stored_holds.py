"""Stores what open reads need, for the coordinator that takes over.

A hold is stored before the ticket of its read is issued or extended. A read that a stored hold covers needs no write: so the reads of a
table cost one write for each lake snapshot and each HOLD_AHEAD, however many they are. A coordinator that was deposed can issue tickets
only for what its successor has read from the store, because the store refuses its writes.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from uuid import uuid4

from tiering.coordinator.decisions.records import ReadHold, to_text
from tiering.coordinator.memory.table_records import TableRecords
from tiering.model.reading.open_reads import READ_TTL, OpenRead

HOLD_AHEAD = READ_TTL
"""How much longer a hold is valid than the read for which it was stored, so that the next renewals need no write."""


class StoredHolds:
    """The holds of one store. It is thread-safe."""

    def __init__(self, table_records: TableRecords, new_id: Callable[[], str] = lambda: uuid4().hex) -> None:
        self._table_records = table_records
        self._new_id = new_id
        self._lock = threading.Lock()
        self.inherited = self._inherited()
        """The holds that earlier coordinators stored."""
        self._by_table: defaultdict[int, list[ReadHold]] = defaultdict(list)
        for hold in self.inherited:
            self._by_table[hold.table_id].append(hold)

    def _inherited(self) -> tuple[ReadHold, ...]:
        stored, now = self._table_records.store.read_holds(), self._table_records.now().wall
        holds = [hold.inherited_at(now) for hold in stored]
        if extended := [hold for hold, former in zip(holds, stored, strict=True) if hold != former]:
            self._table_records.change_read_holds(added=extended)
        return tuple(holds)

    def ensure(self, read: OpenRead) -> None:
        """Makes sure that the store has what the read needs, until the read expires. Raises StoreError, Fenced."""
        moment, log = read.moment, to_text(read.moment.log_starts)
        if moment.lake_snapshot_id is None and not log:
            return
        with self._lock:
            holds = self._by_table[moment.table_id]
            if any(hold.covers(moment.lake_snapshot_id, log, read.expires_at) for hold in holds):
                return
            hold = ReadHold(self._new_id(), moment.table_id, moment.lake_snapshot_id, log, read.expires_at + HOLD_AHEAD)
            self._table_records.change_read_holds(added=[hold])
            holds.append(hold)

    def expire(self, now: datetime) -> None:
        """Deletes the holds whose time is over. Raises StoreError, Fenced."""
        with self._lock:
            ended = [hold for holds in self._by_table.values() for hold in holds if hold.until <= now]
            if not ended:
                return
            self._table_records.change_read_holds(ended=[hold.hold_id for hold in ended])
            for table_id in {hold.table_id for hold in ended}:
                living = [hold for hold in self._by_table.pop(table_id) if hold.until > now]
                if living:
                    self._by_table[table_id] = living
