"""Slots of tierers for upkeep rounds: slots that no table needs, for as long as none does.

An upkeep round gets a slot when a tierer asks and no table waits. It gives way once a table waits and finds no free slot: the round ends at
once, and its tierer learns that with its next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import RoundRecord, TableRecord
from tiering.coordinator.decisions.upkeep import rounds
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.memory.tierer_registry import TiererKey, TiererRegistry
from tiering.coordinator.observing.upkeep_needs import UpkeepNeeds

FULL_SLOTS_MS = 500
"""How long a table waits for a slot before an upkeep round gives way, if no slot is free.

Its deadline allows for it (`waits.REACTION_MS`).
"""

IDLE_SLOT_MS = 3_000
"""How long a table waits while a slot is free. The tierer of that slot asks every second."""

GIVEN_WAY_MS = 4_000
"""How long the slot of a round that gave way may take to become free."""


class UpkeepSlots:
    """Gives slots to upkeep rounds and takes them back. `pick` returns the waiting table that a tierer's next request gets."""

    def __init__(
        self,
        table_records: TableRecords,
        tierers: TiererRegistry,
        needs: UpkeepNeeds,
        pick: Callable[[TiererKey], TableRecord | None],
    ) -> None:
        self._table_records = table_records
        self._tierers = tierers
        self._needs = needs
        self._pick = pick
        self._way_given: tuple[datetime, ...] = ()
        """When upkeep rounds recently gave way (steady times)."""

    def next(self, key: TiererKey, incarnation: str | None) -> TableRecord | None:
        """Begins the upkeep round that gets a slot of this tierer; None if none does.

        Call it inside of `changing`, after waiting tables.
        """
        now = self._table_records.now()
        if not self._is_spare(key) or self._table_records.first_waiting(now):
            return None
        work = self._needs.next_work(now)
        if work is None:
            return None
        change = rounds.begin(self._table_records.context(), *work, key[0], incarnation)
        self._table_records.put(change)
        return change.record

    def is_ready(self, key: TiererKey) -> bool:
        """Returns whether `next` may begin a round. It takes no lock."""
        return self._needs.is_ready() and self._is_spare(key)

    def give_way(self) -> None:
        """Ends an upkeep round if a table waits and finds no free slot. It takes no lock if no table waits or no upkeep round runs."""
        if self._table_records.work_waits() and any(record.upkeep_runs for record in self._table_records.running()):
            with self._table_records.changing():
                self._give_way(self._table_records.now())

    def _is_spare(self, key: TiererKey) -> bool:
        """Returns whether an upkeep round leaves a slot of its tierer to tables that become due. A tierer's only slot serves both."""
        slots = self._tierers.slots_of(key)
        running = sum(record.running is not None and record.running.tierer_id == key[0] for record in self._table_records.running())
        return slots == 1 or running + 1 < slots

    def _give_way(self, now: Moment) -> None:
        """Ends at most one round, and never more rounds than tables wait."""
        self._way_given = tuple(time for time in self._way_given if now.milliseconds_since(time) < GIVEN_WAY_MS)
        if len(self._way_given) >= len(self._table_records.waiting()):
            return
        running = self._table_records.running()
        patience_ms = IDLE_SLOT_MS if self._tierers.slots() > len(running) else FULL_SLOTS_MS
        for record in running:
            waiting = self._waits_for(record)
            if waiting is None or now.milliseconds_since(waiting.pending_since or now.steady) < patience_ms:
                continue
            self._way_given = (*self._way_given, now.steady)
            why = f"{waiting.path} is due, and no slot is free"
            self._table_records.put(rounds.give_way(self._table_records.context(), Change(record), why))
            return

    def _waits_for(self, record: TableRecord) -> TableRecord | None:
        """Returns the table that would get the slot of the record's upkeep round; None if none waits, or the round cannot end."""
        key = self._key_of(record.running)
        return None if key is None or not record.upkeep_runs or record.granted else self._pick(key)

    def _key_of(self, row: RoundRecord | None) -> TiererKey | None:
        """Returns the tierer of a running round; None if it was forgotten."""
        if row is None:
            return None
        keys = (tierer.key for tierer in self._tierers.all() if tierer.tierer_id == row.tierer_id)
        return next((key for key in keys if row.incarnation in (None, key[1])), None)
