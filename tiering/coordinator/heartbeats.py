"""Heartbeats of tierers: what they report, and which table they get (DESIGN 4).

Reports come before the request, in the order failed, renewals, finished. They are judged by epoch and round id, so a
repeated or overtaken one does no harm; a request counts only if its tierer has sent no newer heartbeat since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from tiering import errors, rpc_errors
from tiering.coordinator import core_round, core_table, wire
from tiering.coordinator.book import Book
from tiering.coordinator.core_round import Failure, RoundRef
from tiering.coordinator.records import ErrorInfo, RoundRecord, TableRecord, TiererRecord
from tiering.coordinator.timebase import Moment
from tiering.model import RoundState
from tiering.request_bounds import check_id, informative
from tiering.rpc.v1 import coordinator_pb2 as pb

_log = structlog.get_logger(__name__)

WELL = frozenset({RoundState.SUCCEEDED, RoundState.EMPTY, RoundState.FORCE_FINISHED})
BADLY = frozenset({RoundState.FAILED, RoundState.FENCED, RoundState.CANCELLED})


@dataclass(frozen=True)
class Hold:
    """A request that may wait for a table. `listed`: (table id, epoch) of all that its tierer runs."""

    tierer_id: str
    started_at_ms: int
    sequence: int
    listed: frozenset[tuple[int, int]]
    deadline: datetime


class Heartbeats:
    """All tierers, as their heartbeats describe them."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._tierers: dict[str, TiererRecord] = {}
        self._older: set[str] = set()
        self._closing = False

    def handle(self, request: pb.LakeTieringHeartbeatRequest) -> tuple[pb.LakeTieringHeartbeatResponse, Hold | None]:
        """Takes the reports and answers the request. With a Hold nothing is due: the answer may wait for `try_again`.

        Raises InvalidArgument (tierer id); Fenced or StoreError for the heartbeat as a whole: repeat it. Errors of one table are in the
        response.
        """
        tierer_id, forced = request.tierer.tierer_id, set(request.force_finished_tables)
        if tierer_id:  # an older peer has none
            check_id(tierer_id, "a tierer id")
        with self._book.changing(), self._book.together():  # one sync of the disk, not one a report
            newest = self._meet(request)
            response = pb.LakeTieringHeartbeatResponse(coordinator_epoch=self._book.epoch)
            response.failed_table_resp.extend(self._fail(each, tierer_id) for each in request.failed_tables)
            response.tiering_table_resp.extend(self._renew(each, tierer_id) for each in request.tiering_tables)
            response.finished_table_resp.extend(
                self._finish(each, tierer_id, forced=each.table_id in forced) for each in request.finished_tables
            )
            if not newest:
                return response, None
            listed = frozenset((each.table_id, each.tiering_epoch) for each in request.tiering_tables)
            if request.stopping:
                self._stop(tierer_id)
            elif request.request_table:
                self._assign(response, tierer_id, listed)
                return response, self._hold(request, response, listed)
            return response, None

    def try_again(self, hold: Hold) -> pb.LakeTieringHeartbeatResponse | None:
        """The answer to a held request, or None: go on waiting."""
        response = pb.LakeTieringHeartbeatResponse(coordinator_epoch=self._book.epoch)
        with self._book.changing():
            tierer = self._tierers[hold.tierer_id]
            superseded = (tierer.started_at_ms, tierer.sequence) != (hold.started_at_ms, hold.sequence)
            if superseded or tierer.stopped or self._closing:
                return response
            self._assign(response, hold.tierer_id, hold.listed)
            if response.HasField("tiering_table") or self._book.now().passed(hold.deadline):
                self._beat(tierer)
                return response
            return None

    def worth_trying(self, hold: Hold) -> bool:
        """Whether `try_again` may answer now. Takes no lock."""
        tierer = self._tierers[hold.tierer_id]
        changed = tierer.stopped or (tierer.started_at_ms, tierer.sequence) != (hold.started_at_ms, hold.sequence)
        ended = self._closing or self._book.fenced is not None
        return changed or ended or self._book.work_waits() or self._book.now().passed(hold.deadline)

    def tierers(self) -> list[TiererRecord]:
        """All tierers heard of since the start, by id."""
        return sorted(self._tierers.values(), key=lambda tierer: tierer.tierer_id)

    def connected(self, now: Moment) -> bool:
        """Whether any tierer could take a table."""
        return any(not tierer.stopped and not now.passed(tierer.lost_deadline) for tierer in list(self._tierers.values()))

    def close(self) -> None:
        """Ends all held requests."""
        self._closing = True
        self._book.changes.notify()

    def _meet(self, request: pb.LakeTieringHeartbeatRequest) -> bool:
        """Whether this is the newest heartbeat of its tierer. An older peer without sequences is always taken as new."""
        told, now = request.tierer, self._book.now()
        known = self._tierers.get(told.tierer_id)
        order = (told.started_at_ms, told.sequence)
        if known is not None and told.sequence and order <= (known.started_at_ms, known.sequence):
            return False
        self._tierers[told.tierer_id] = TiererRecord(
            tierer_id=told.tierer_id,
            sequence=told.sequence,
            started_at_ms=told.started_at_ms,
            host=informative(told.host),
            application_id=informative(told.application_id),
            version=informative(told.version),
            slots=told.slots,
            heartbeat_time=now.wall,
            lost_deadline=now.after(self._book.options.service_timeout_ms),
            stopped=request.stopping,
        )
        self._book.changes.notify()
        return True

    def _beat(self, tierer: TiererRecord) -> None:
        now = self._book.now()
        lost = now.after(self._book.options.service_timeout_ms)
        self._tierers[tierer.tierer_id] = replace(tierer, heartbeat_time=now.wall, lost_deadline=lost)

    def _hold(
        self, request: pb.LakeTieringHeartbeatRequest, response: pb.LakeTieringHeartbeatResponse, listed: frozenset[tuple[int, int]]
    ) -> Hold | None:
        reports = request.tiering_tables or request.finished_tables or request.failed_tables
        if reports or response.HasField("tiering_table") or request.max_wait_ms <= 0:
            return None
        deadline = self._book.now().after(min(request.max_wait_ms, self._book.options.hold_ms))
        told = request.tierer
        return Hold(told.tierer_id, told.started_at_ms, told.sequence, listed, deadline)

    def _assign(self, response: pb.LakeTieringHeartbeatResponse, tierer_id: str, listed: frozenset[tuple[int, int]]) -> None:
        given = self._hand_over(tierer_id, listed) or self._next(tierer_id)
        if given is not None:
            response.tiering_table.CopyFrom(wire.assignment(given, self._book.epoch, self._book.options.min_round_duration_ms))

    def _next(self, tierer_id: str) -> TableRecord | None:
        picked = core_table.pick(self._book.waiting(), self._book.now())
        if picked is None:
            return None
        change = core_round.assign(self._book.context(), picked, tierer_id)
        self._book.put(change)
        return change.record

    def _hand_over(self, tierer_id: str, listed: frozenset[tuple[int, int]]) -> TableRecord | None:
        """The first table whose assignment this tierer never got; granted ones end instead."""
        for record in self._running(tierer_id):
            if (record.table_id, record.tiering_epoch) in listed:
                continue
            change = core_round.lose(self._book.context(), record)
            self._book.put(change)
            if change.record.running is not None:
                return change.record
        return None

    def _running(self, tierer_id: str) -> list[TableRecord]:
        return [record for record in self._book.running() if record.running is not None and record.running.tierer_id == tierer_id]

    def _stop(self, tierer_id: str) -> None:
        """Its last heartbeat: what it still had goes to the next tierer at once."""
        for record in self._running(tierer_id):
            stopped = errors.TiererStopped(f"the tierer {tierer_id} was stopped")
            info = ErrorInfo(stopped.error_class, stopped.message, None, stopped.hint, retryable=True, time=self._book.now().wall)
            self._book.put(core_round.fail(self._book.context(), record, Failure(info, stopped=True)))

    def _renew(self, told: pb.PbHeartbeatReqForTable, tierer_id: str) -> pb.PbHeartbeatRespForTable:
        ref = wire.report_ref(told, tierer_id)
        record = self._current(ref)
        if record is None:
            return self._refused(ref, cancel=True)
        change = core_round.renew(self._book.context(), record, wire.passed_head(told))
        self._book.put(change)
        cancelled = change.record.round is not None and change.record.round.cancelled_by is not None
        return pb.PbHeartbeatRespForTable(table_id=ref.table_id, cancel=cancelled)

    def _finish(self, told: pb.PbHeartbeatReqForTable, tierer_id: str, *, forced: bool) -> pb.PbHeartbeatRespForTable:
        ref = wire.report_ref(told, tierer_id)
        record = self._current(ref)
        if record is not None:
            self._book.put(core_round.finish(self._book.context(), record, wire.finished(told, forced=forced)))
        elif not self._ended(ref, WELL):
            return self._refused(ref)
        return pb.PbHeartbeatRespForTable(table_id=ref.table_id)

    def _fail(self, told: pb.PbHeartbeatReqForTable, tierer_id: str) -> pb.PbHeartbeatRespForTable:
        ref = wire.report_ref(told, tierer_id)
        record = self._current(ref)
        if not told.HasField("error_message") and tierer_id not in self._older:
            self._older.add(tierer_id)
            _log.warning("an older tierer gives no reason for its failures", tierer_id=tierer_id)
        if record is not None:
            self._book.put(core_round.fail(self._book.context(), record, wire.failure(told, self._book.now().wall)))
        elif not self._ended(ref, BADLY):
            return self._refused(ref)
        return pb.PbHeartbeatRespForTable(table_id=ref.table_id)

    def _current(self, ref: RoundRef) -> TableRecord | None:
        record = self._book.get(ref.table_id)
        return record if core_round.is_current(record, ref) else None

    def _ended(self, ref: RoundRef, states: frozenset[RoundState]) -> bool:
        """Whether the report repeats how its round ended."""
        record = self._book.get(ref.table_id)
        known: RoundRecord | None = record.round if record else None
        if ref.round_id and (known is None or known.round_id != ref.round_id):
            known = self._book.store.round(ref.round_id)
        return known is not None and known.table_id == ref.table_id and known.tiering_epoch == ref.tiering_epoch and known.state in states

    def _refused(self, ref: RoundRef, *, cancel: bool = False) -> pb.PbHeartbeatRespForTable:
        error = rpc_errors.to_pb(core_round.fenced_error(self._book.get(ref.table_id), ref))
        return pb.PbHeartbeatRespForTable(table_id=ref.table_id, error=error, cancel=cancel)
