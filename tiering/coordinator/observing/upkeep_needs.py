"""Which lake tables need an upkeep round, and what each of these rounds waits for.

A table's need follows from its health and from callers' requests; its record decides when a round may begin. A background pass looks up the
tables that need upkeep. Each tick then checks only these few.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.moment import Moment
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.decisions.upkeep.need import needed_work
from tiering.coordinator.decisions.upkeep.rounds import UpkeepWork
from tiering.coordinator.decisions.upkeep.schedule import earliest_time, within_budget
from tiering.coordinator.decisions.upkeep.schedule import waits_for as waits_in_record
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.discovery import Discovery
from tiering.coordinator.observing.lake_health import HealthSource
from tiering.lake.table_options import AUTO_COMPACTION
from tiering.model.upkeep import UpkeepOrder
from tiering.throttle import Throttling, unthrottled

MOST_READY = 200
"""Number of tables that each tick checks: many more than there are free slots at a time."""

Waits = str | None
"""The reason why a table's upkeep waits, in words; None if it does not wait."""


@dataclass(frozen=True)
class UpkeepExplanation:
    """The work of a table's next upkeep round. `order` is None if there is nothing to do now.

    `reason` says why the work is necessary, or why there is none. `waits_for` says what the round waits for, or would wait for; None if it
    waits for nothing. `next_time` is the earliest start of the round; None if there is nothing to do.
    """

    order: UpkeepOrder | None
    reason: str
    waits_for: str | None
    next_time: datetime | None


class UpkeepNeeds:
    """The upkeep that tables need. One thread calls `refresh` and one calls `tick`; any thread may call the other methods."""

    def __init__(self, table_records: TableRecords, health: HealthSource, discovery: Discovery) -> None:
        self._table_records = table_records
        self._health = health
        self._discovery = discovery
        self._needy: tuple[int, ...] = ()
        self._ready = False

    def refresh(self, throttle: Throttling = unthrottled) -> None:
        """Looks up the tables that need upkeep: one background pass."""
        needy = []
        for record in self._table_records.live():
            is_needy = self.work_of(record) is not None
            if is_needy:
                needy.append(record)
            if self._table_records.options.assigned_by_cluster and is_needy != record.upkeep.is_needed:
                self._note_need(record.table_id, is_needed=is_needy)
            if not throttle():
                return
        self._needy = tuple(record.table_id for record in sorted(needy, key=_order))
        self.tick()

    def _note_need(self, table_id: int, *, is_needed: bool) -> None:
        """Records whether the table's next turn should be kept for upkeep."""
        with self._table_records.changing():
            record = self._table_records.get(table_id)
            if record is not None:
                change = Change(record).update(upkeep=replace(record.upkeep, is_needed=is_needed))
                self._table_records.put(replace(change, durable=False))

    def tick(self) -> None:
        """Notes whether any of these tables could begin an upkeep round now."""
        now = self._table_records.now()
        self._ready = any(self._may_begin(now, record) for record in self._candidates())

    def is_ready(self) -> bool:
        """Returns whether an upkeep round could begin now. It is cheap, takes no lock, and may be wrong for one tick."""
        return self._ready or bool(self._table_records.upkeep_requested())

    def next_work(self, now: Moment) -> tuple[TableRecord, UpkeepWork] | None:
        """Returns the table whose upkeep round begins first, and its work; None if none may begin. Call it inside of `changing`."""
        for record in self._candidates():
            work = self.work_of(record)
            if work is not None and self._may_begin(now, record):
                return record, work
        return None

    def work_of(self, record: TableRecord) -> UpkeepWork | None:
        """Returns the work of the table's next upkeep round: a caller's request first, otherwise what its health needs."""
        if record.upkeep.requests:
            request = record.upkeep.requests[0]
            return UpkeepWork(request.order, f"{request.procedure} by {request.caller}", request)
        info = self._discovery.infos.get(record.table_id)
        if info is None:
            return None
        return needed_work(record, info, self._health.observation(record), self._table_records.now().wall)

    def waits_for(self, record: TableRecord, *, tierer_connected: bool) -> str | None:
        """Returns why the necessary upkeep does not begin, in words; None if there is none, or it begins with the next free slot."""
        explanation = self.explain(record, tierer_connected=tierer_connected)
        return None if explanation.order is None else explanation.waits_for

    def explain(self, record: TableRecord, *, tierer_connected: bool) -> UpkeepExplanation:
        """Returns what upkeep would do for the table now, and what it waits for."""
        now, work = self._table_records.now(), self.work_of(record)
        waits = self._in_record(now, record)
        if work is None:
            return UpkeepExplanation(None, self._nothing_to_do(record), waits, None)
        if waits is None:
            waits = self._for_slot(tierer_connected=tierer_connected)
        order = within_budget(now, record, work.order)
        return UpkeepExplanation(order, work.reason, waits, earliest_time(now, record))

    def _nothing_to_do(self, record: TableRecord) -> str:
        info = self._discovery.infos.get(record.table_id)
        if info is not None and not info.auto_compaction:
            return f"{AUTO_COMPACTION.name} is off: files are rewritten only by CALL sys.rewrite_data_files"
        observation = self._health.observation(record)
        if observation is None:
            return "its health has not been observed yet"
        if observation.measure is None:
            return "there is no lake table yet"
        if record.upkeep.commit_time is not None and observation.observed_time <= record.upkeep.commit_time:
            return "its health has not been observed since its latest upkeep round"
        return "no files need a rewrite"

    def _for_slot(self, *, tierer_connected: bool) -> Waits:
        if not tierer_connected:
            return "no tierer is connected"
        if self._table_records.work_waits():
            return "other tables wait for a tierer and come first"
        return "a slot that no other table needs"

    def _may_begin(self, now: Moment, record: TableRecord) -> bool:
        return self._in_record(now, record) is None

    def _in_record(self, now: Moment, record: TableRecord) -> Waits:
        needs_turn = self._table_records.options.assigned_by_cluster
        return waits_in_record(now, record, needs_turn=needs_turn, requested=bool(record.upkeep.requests))

    def _candidates(self) -> Iterable[TableRecord]:
        """Yields tables that may need upkeep, tables with requests first."""
        requested = [record for table_id in self._table_records.upkeep_requested() if (record := self._table_records.get(table_id))]
        yield from sorted(
            requested, key=lambda record: record.upkeep.requests[0].queued_time if record.upkeep.requests else record.status_time
        )
        requested_ids = {record.table_id for record in requested}
        for table_id in self._needy[:MOST_READY]:
            if table_id not in requested_ids and (record := self._table_records.get(table_id)) is not None:
                yield record


def _order(record: TableRecord) -> tuple[bool, float, int]:
    """Returns the sort key: tables without upkeep first, then those whose latest upkeep is the oldest."""
    latest = record.upkeep.last_time
    return latest is not None, 0.0 if latest is None else latest.timestamp(), record.table_id
