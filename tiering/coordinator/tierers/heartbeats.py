"""Heartbeats of tierers: their reports, and the table that they get (DESIGN 4).

Reports are applied before the request, in the order failed, renewals, finished. They are judged by epoch, round id and the process that
runs the round, so a repeated, overtaken or forged report does no harm. A request counts only if its process has sent no newer heartbeat.
`tierer_registry` decides which process a heartbeat comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

import structlog

from tiering import errors
from tiering.coordinator.decisions import backlog, retries, round_lifecycle, table_lifecycle
from tiering.coordinator.decisions.change import TIERER_FENCED, cancel_text
from tiering.coordinator.decisions.records import ErrorInfo, RoundRecord, TableRecord
from tiering.coordinator.decisions.round_lifecycle import Failure, QueueFacts, RoundRef
from tiering.coordinator.decisions.table_lifecycle import BacklogTurns
from tiering.coordinator.memory.history import HistoryRange
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.memory.tierer_registry import KEPT_TIERERS, TiererKey, TiererRegistry, key_of
from tiering.coordinator.observing.upkeep_needs import UpkeepNeeds
from tiering.coordinator.tierers.messages import (
    assignment_of,
    checked_round_id,
    failure_from_pb,
    finished_from_pb,
    incarnation_from_pb,
    passed_head_from_pb,
    report_ref_from_pb,
)
from tiering.coordinator.tierers.named_epochs import note_named_epochs
from tiering.coordinator.tierers.upkeep_slots import UpkeepSlots
from tiering.model.rounds import RoundState
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.errors import error_to_pb
from tiering.wire.model_codecs import ASSIGNMENT

_log = structlog.get_logger(__name__)

ENDED_WELL = frozenset({RoundState.SUCCEEDED, RoundState.EMPTY, RoundState.FORCE_FINISHED})
ENDED_BADLY = frozenset({RoundState.FAILED, RoundState.FENCED, RoundState.CANCELLED})

MAX_REPORTS = 500
"""Upper bound of reports in one heartbeat: many more than a tierer has slots, and few enough to be judged while other callers wait."""

FormerRounds = Mapping[str, RoundRecord | None]
"""Stored rounds that reports name, by id; None if the store lacks the round."""


@dataclass(frozen=True)
class HeldRequest:
    """A request that may wait for a table. `listed` has table id and epoch of the rounds that its tierer runs."""

    tierer: TiererKey
    incarnation: str | None
    sequence: int
    listed: frozenset[tuple[int, int]]
    deadline: datetime


@dataclass(frozen=True)
class Verdict:
    """The answer to a report about one round. A tierer may run two rounds of a table, one of which is fenced.

    It is converted to a message outside of the records' lock, because the texts of thousands of refused reports take a second.
    """

    ref: RoundRef
    is_refused: bool = False
    record: TableRecord | None = None
    """The table at the time of the verdict, for the text of a refusal."""
    cancel: bool = False
    cancelled: RoundRecord | None = None
    """The round, if a user cancelled it."""

    def to_pb(self) -> pb.PbHeartbeatRespForTable:
        """Returns this verdict's part of the response."""
        return pb.PbHeartbeatRespForTable(
            table_id=self.ref.table_id,
            error=error_to_pb(round_lifecycle.fenced_error(self.record, self.ref)) if self.is_refused else None,
            cancel=self.cancel or self.cancelled is not None,
            round_id=self.ref.round_id,
            cancel_message=None if self.cancelled is None else cancel_text(self.cancelled),
        )


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on the reports of one heartbeat, in the order of the reports."""

    failed: Sequence[Verdict]
    renewed: Sequence[Verdict]
    finished: Sequence[Verdict]

    def add_to(self, response: pb.LakeTieringHeartbeatResponse) -> None:
        """Adds the verdicts to the response."""
        response.failed_table_resp.extend(verdict.to_pb() for verdict in self.failed)
        response.tiering_table_resp.extend(verdict.to_pb() for verdict in self.renewed)
        response.finished_table_resp.extend(verdict.to_pb() for verdict in self.finished)


class Heartbeats:
    """Judges heartbeats and assigns tables. `note_passed_head` is called with the heads that base checks of rounds passed.

    `waiting_since` returns a lower bound for the time of the oldest row that a table's lake lacks; None if unknown.
    """

    def __init__(
        self,
        table_records: TableRecords,
        note_passed_head: Callable[[TableRecord, int | None], None],
        waiting_since: Callable[[TableRecord], datetime | None],
        upkeep: UpkeepNeeds,
        read_snapshots: Callable[[int], frozenset[int] | None],
    ) -> None:
        """`read_snapshots` returns the lake snapshots that open reads of a table need; None = unknown."""
        self._table_records = table_records
        self._note_passed_head = note_passed_head
        self._waiting_since = waiting_since
        self._read_snapshots = read_snapshots
        self.tierers = TiererRegistry(table_records.options.service_timeout_ms, table_records.now())
        self.upkeep_slots = UpkeepSlots(table_records, self.tierers, upkeep, self._pick)
        self._restore_fences()
        self._closing = False

    def handle(self, request: pb.LakeTieringHeartbeatRequest) -> tuple[pb.LakeTieringHeartbeatResponse, HeldRequest | None]:
        """Applies the reports and answers the request. With a HeldRequest, no table is due, and the answer may wait for `try_again`.

        Raises Fenced or StoreError for the whole heartbeat, which the tierer repeats; InvalidArgument for an invalid one. Errors of single
        tables are in the response.
        """
        _check_size(request)
        former = self._former_rounds(request)
        response, verdicts, hold = self._table_records.change(lambda: self._handle(request, former))
        verdicts.add_to(response)
        return response, hold

    def _handle(
        self, request: pb.LakeTieringHeartbeatRequest, former: FormerRounds
    ) -> tuple[pb.LakeTieringHeartbeatResponse, Verdicts, HeldRequest | None]:
        tierer = request.tierer
        sender = self.tierers.meet(tierer, self._table_records.now(), stopping=request.stopping)
        if not sender.overtaken:
            self._table_records.wake_ups.notify()
        note_named_epochs(self._table_records, (*request.failed_tables, *request.tiering_tables, *request.finished_tables))
        response = pb.LakeTieringHeartbeatResponse(coordinator_epoch=self._table_records.epoch, fenced=sender.tierer.fenced)
        verdicts = Verdicts(  # judged in the order of the module's docstring
            failed=[self._end(report, tierer, former, has_failed=True) for report in request.failed_tables],
            renewed=[self._renew(report, tierer) for report in request.tiering_tables],
            finished=[self._end(report, tierer, former, has_failed=False) for report in request.finished_tables],
        )
        if sender.overtaken:
            return response, verdicts, None
        listed = frozenset((report.table_id, report.tiering_epoch) for report in request.tiering_tables)
        if request.stopping:
            self._stop(tierer)
        elif request.request_table and sender.may_take:
            incarnation = incarnation_from_pb(tierer)
            self._assign(response, sender.tierer.key, incarnation, listed)
            return response, verdicts, self._hold(request, response, sender.tierer.key, listed)
        return response, verdicts, None

    @staticmethod
    def may_be_held(request: pb.LakeTieringHeartbeatRequest) -> bool:
        """Returns whether the answer may wait for a table: the request allows it, and reports nothing."""
        reports = request.tiering_tables or request.finished_tables or request.failed_tables
        return request.request_table and request.max_wait_ms > 0 and not reports

    def try_again(self, hold: HeldRequest) -> pb.LakeTieringHeartbeatResponse | None:
        """Returns the answer to a held request; None if it has to wait longer."""
        response = pb.LakeTieringHeartbeatResponse(coordinator_epoch=self._table_records.epoch)
        with self._table_records.changing():
            response.fenced = self._is_fenced(hold.tierer)
            if self._is_over(hold) or self._closing:
                return response
            self._assign(response, hold.tierer, hold.incarnation, hold.listed)
            if response.HasField("tiering_table") or self._table_records.now().passed(hold.deadline):
                self.tierers.renew(hold.tierer, self._table_records.now())
                return response
            return None

    def worth_trying(self, hold: HeldRequest) -> bool:
        """Returns whether `try_again` may answer now. It takes no lock."""
        ended = self._closing or self._table_records.fenced is not None
        may_take = not self._is_fenced(hold.tierer)
        return (
            self._is_over(hold)
            or ended
            or (may_take and (self._table_records.work_waits() or self.upkeep_slots.is_ready(hold.tierer)))
            or self._table_records.now().passed(hold.deadline)
        )

    def _restore_fences(self) -> None:
        """Restores fences from the events of `fence_tierer`, as far as history goes back. A process that hangs meanwhile stays fenced."""
        events = self._table_records.store.read_events(HistoryRange(fields={"event_type": TIERER_FENCED}))
        for event in reversed(list(islice(events, KEPT_TIERERS))):
            tierer_id, digests = event.details.get("tierer_id"), event.details.get("processes", ())
            if isinstance(tierer_id, str):
                self.tierers.restore_fences(tierer_id, (digest for digest in digests if isinstance(digest, str)))

    def forget_lost(self) -> None:
        """Forgets tierers that were silent for the service timeout. It takes no lock while there are none."""
        if self.tierers.any_lost(self._table_records.now()):
            with self._table_records.changing():
                self.tierers.forget_lost(self._table_records.now())

    def close(self) -> None:
        """Answers all held requests without a table from now on."""
        self._closing = True
        self._table_records.wake_ups.notify()

    def _is_fenced(self, key: TiererKey) -> bool:
        tierer = self.tierers.get(key)
        return tierer is not None and tierer.fenced

    def _is_over(self, hold: HeldRequest) -> bool:
        """Returns whether the request's process sent a newer heartbeat, stopped, or was forgotten."""
        tierer = self.tierers.get(hold.tierer)
        return tierer is None or tierer.stopped or tierer.sequence != hold.sequence

    def _hold(
        self,
        request: pb.LakeTieringHeartbeatRequest,
        response: pb.LakeTieringHeartbeatResponse,
        tierer: TiererKey,
        listed: frozenset[tuple[int, int]],
    ) -> HeldRequest | None:
        if response.HasField("tiering_table") or not self.may_be_held(request):
            return None
        deadline = self._table_records.now().after(min(request.max_wait_ms, self._table_records.options.hold_ms))
        return HeldRequest(tierer, incarnation_from_pb(request.tierer), request.tierer.sequence, listed, deadline)

    def _assign(
        self, response: pb.LakeTieringHeartbeatResponse, tierer: TiererKey, incarnation: str | None, listed: frozenset[tuple[int, int]]
    ) -> None:
        if self._is_fenced(tierer):
            return
        self._take_over(tierer, incarnation)
        record = self._hand_over(tierer[0], incarnation, listed) or self._next(tierer, incarnation)
        record = record or self.upkeep_slots.next(tierer, incarnation)
        if record is not None:
            assignment = assignment_of(record, self._table_records.epoch, self._read_snapshots(record.table_id))
            response.tiering_table.CopyFrom(ASSIGNMENT.to_pb(assignment))

    def _next(self, key: TiererKey, incarnation: str | None) -> TableRecord | None:
        picked = self._pick(key)
        if picked is None:
            return None
        ctx, facts = self._table_records.context(), self._queue_facts(picked)
        change = round_lifecycle.assign(ctx, picked, key[0], incarnation, leaves_slots=self._leaves_slots(key), facts=facts)
        self._table_records.put(change)
        return change.record

    def _pick(self, key: TiererKey) -> TableRecord | None:
        """Returns the waiting table that this tierer's next request gets; None if there is none."""
        slots, leaves_slots, now = self.tierers.slots_of(key), self._leaves_slots(key), self._table_records.now()
        # A tierer's only slot alternates between tables in backlog and others, with rounds of the usual length.
        turns = BacklogTurns(allowed=leaves_slots or slots == 1, apart=self._table_records.options.backlog_waits_apart)
        waiting = self._table_records.first_waiting(now)
        if any(map(retries.is_retry, waiting)) and not self._may_retry():
            waiting = [record for record in waiting if not retries.is_retry(record)]
        return table_lifecycle.pick(waiting, now, turns)

    def _queue_facts(self, record: TableRecord) -> QueueFacts:
        queued, now = record.round, self._table_records.now().wall
        absent_ms = 0 if queued is None else self.tierers.absent_ms(queued.pending_time, now)
        return QueueFacts(self._waiting_since(record), absent_ms)

    def _leaves_slots(self, key: TiererKey) -> bool:
        """Returns whether one more long round of a backlog leaves a slot of its tierer to tables that promise freshness."""
        if self._table_records.options.backlog_duration_factor == 1 or not self._table_records.any_live():
            return True
        now = self._table_records.now()
        running = sum(backlog.takes_backlog_slot(record, now) for record in self._running(key[0]))
        return running < self.tierers.slots_of(key) - 1

    def _may_retry(self) -> bool:
        return retries.may_retry(self._table_records.running(), self.tierers.slots(), *self._table_records.failing())

    def _take_over(self, key: TiererKey, incarnation: str | None) -> None:
        """With a process's first request, ends the rounds of earlier processes with its id, which have usually ended.

        It happens only once, so that of two living processes neither repeatedly ends the other's rounds.
        """
        tierer = self.tierers.get(key)
        if tierer is None or tierer.took_over:
            return
        self.tierers.put(replace(tierer, took_over=True))
        for record in self._running(tierer.tierer_id):
            if record.running is not None and record.running.incarnation not in (None, incarnation):
                self._table_records.put(round_lifecycle.take_over(self._table_records.context(), record))

    def _hand_over(self, tierer_id: str, incarnation: str | None, listed: frozenset[tuple[int, int]]) -> TableRecord | None:
        """Hands over the first table whose assignment this process never received. Ends granted rounds instead."""
        for record in self._running(tierer_id):
            foreign = record.running is not None and record.running.incarnation not in (None, incarnation)
            if foreign or (record.table_id, record.tiering_epoch) in listed:
                continue
            change = round_lifecycle.lose(self._table_records.context(), record)
            self._table_records.put(change)
            if change.record.running is not None:
                return change.record
        return None

    def _running(self, tierer_id: str) -> list[TableRecord]:
        return [record for record in self._table_records.running() if record.running is not None and record.running.tierer_id == tierer_id]

    def _stop(self, tierer: pb.PbTierer) -> None:
        """Ends the rounds of a stopping tierer, so that another tierer gets the tables at once."""
        for record in self._running(tierer.tierer_id):
            if record.running is None or record.running.incarnation not in (None, incarnation_from_pb(tierer)):
                continue
            stopped = errors.TiererStopped(f"the tierer {tierer.tierer_id} was stopped")
            info = ErrorInfo(stopped.error_class, stopped.message, None, stopped.hint, retryable=True, time=self._table_records.now().wall)
            self._table_records.put(round_lifecycle.fail(self._table_records.context(), record, Failure(info, stopped=True)))

    def _renew(self, report: pb.PbHeartbeatReqForTable, tierer: pb.PbTierer) -> Verdict:
        ref = report_ref_from_pb(report, tierer)
        record = self._current(ref)
        if record is None:
            return self._refused(ref, cancel=True)
        self._note_passed_head(record, passed_head_from_pb(report))
        change = round_lifecycle.renew(self._table_records.context(), record)
        self._table_records.put(change)
        return Verdict(ref, cancelled=_cancelled(change.record, ref))

    def _end(self, report: pb.PbHeartbeatReqForTable, tierer: pb.PbTierer, former: FormerRounds, *, has_failed: bool) -> Verdict:
        ref = report_ref_from_pb(report, tierer)
        record = self._current(ref)
        if record is not None:
            self._note_passed_head(record, passed_head_from_pb(report))
            now, ctx = self._table_records.now().wall, self._table_records.context()
            if has_failed:
                change = round_lifecycle.fail(ctx, record, failure_from_pb(report, now))
            else:
                change = round_lifecycle.finish(ctx, record, finished_from_pb(report, now))
            self._table_records.put(change)
            self.tierers.count_round(key_of(tierer))
        elif not self._ended(ref, ENDED_BADLY if has_failed else ENDED_WELL, former):
            return self._refused(ref)
        return Verdict(ref)

    def _current(self, ref: RoundRef) -> TableRecord | None:
        record = self._table_records.get(ref.table_id)
        return record if round_lifecycle.is_current(record, ref) else None

    def _former_rounds(self, request: pb.LakeTieringHeartbeatRequest) -> FormerRounds:
        """Looks up stored rounds that are not their table's latest, in one query before the lock, because other threads wait for it."""
        named: set[str] = set()
        for report in (*request.finished_tables, *request.failed_tables):
            record = self._table_records.get(report.table_id)
            latest = None if record is None or record.round is None else record.round.round_id
            if report.round_id not in ("", latest):
                named.add(checked_round_id(report.round_id))
        rounds = self._table_records.store.rounds_by_id(named) if named else {}
        return {round_id: rounds.get(round_id) for round_id in named}

    def _ended(self, ref: RoundRef, states: frozenset[RoundState], former: FormerRounds) -> bool:
        """Returns whether the report repeats how its round ended."""
        record = self._table_records.get(ref.table_id)
        stored_round: RoundRecord | None = record.round if record else None
        if ref.round_id and (stored_round is None or stored_round.round_id != ref.round_id):
            stored_round = former.get(ref.round_id)
            if ref.round_id not in former or (stored_round is not None and not stored_round.state.is_final):  # it ended after the look-up
                stored_round = self._table_records.store_with(ref.table_id).round(ref.round_id)
        return (
            stored_round is not None
            and stored_round.table_id == ref.table_id
            and stored_round.tiering_epoch == ref.tiering_epoch
            and stored_round.state in states
        )

    def _refused(self, ref: RoundRef, *, cancel: bool = False) -> Verdict:
        record = self._table_records.get(ref.table_id)
        return Verdict(ref, is_refused=True, record=record, cancel=cancel, cancelled=_cancelled(record, ref) if cancel else None)


def _cancelled(record: TableRecord | None, ref: RoundRef) -> RoundRecord | None:
    """Returns the round of `ref` if it is the table's latest and a user cancelled it."""
    latest = None if record is None else record.round
    if latest is None or latest.cancelled_by is None or latest.tiering_epoch != ref.tiering_epoch:
        return None
    return latest


def _check_size(request: pb.LakeTieringHeartbeatRequest) -> None:
    reports = len(request.tiering_tables) + len(request.finished_tables) + len(request.failed_tables)
    if reports > MAX_REPORTS:
        raise errors.InvalidArgument(f"a heartbeat has at most {MAX_REPORTS} reports; this one has {reports}")
