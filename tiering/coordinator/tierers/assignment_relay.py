"""Connects the cluster that assigns tables with our tierers: one heartbeat for all of them (docs/fluss-facts.md, "Coordinator").

It runs in its own thread, outside of requests: the thread asks the cluster, and the records determine the reports
(`decisions.assignments`). If this process dies, the cluster lets unreported assignments time out. Assignments stored under an earlier
session no longer count.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime

import structlog

from tiering.cluster.assignments import TableAssignments
from tiering.coordinator.decisions import assignments, table_lifecycle
from tiering.coordinator.decisions.assignments import RequestThrottle
from tiering.coordinator.decisions.change import Change, Context
from tiering.coordinator.decisions.moment import Moment, milliseconds
from tiering.coordinator.decisions.records import TableRecord, TiererRecord
from tiering.coordinator.memory.cluster_notifications import ClusterNotifications
from tiering.coordinator.memory.table_records import TableRecords
from tiering.errors import ClusterUnavailable, LakewardError
from tiering.model.assignments import AssignmentAnswer, AssignmentRef, AssignmentReport, JudgedAssignment, Judgement, NewAssignment

_log = structlog.get_logger(__name__)

MAX_HEARTBEATS = 50
"""Upper bound of heartbeats in one turn. Each brings at most one table, and many are requested at once when many tierers start."""

RENEWAL_INTERVAL_MS = 10_000
"""Interval of renewals without another report. It is short compared with the 120 s after which Fluss takes assignments away."""

CONFIRMED_MS = 60_000
"""Largest age of a renewal when a commit is granted: half of those 120 s, so that the commit has the other half."""


class AssignmentRelay:
    """The relay. `tierers` returns the known tierers. `discover` compares the cluster's tables with the records. One thread runs it."""

    def __init__(
        self,
        table_records: TableRecords,
        cluster: TableAssignments,
        tierers: Callable[[], Sequence[TiererRecord]],
        discover: Callable[[], None],
        notifications: ClusterNotifications,
    ) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._tierers = tierers
        self._discover = discover
        self._notifications = notifications
        self._session: str | None = None
        self._turn = threading.Lock()
        self._closed = False
        self._reachable = True
        self._throttle = RequestThrottle()
        self._unknown: list[AssignmentRef] = []
        """Assigned tables that the cluster does not list. They are handed back."""
        self._last_heartbeat: datetime | None = None
        self._renewals: dict[AssignmentRef, Moment] = {}
        """Send times of the heartbeats with which the cluster last gave or renewed the assignments of this session."""

    def run(self) -> None:
        """Runs one turn: reports to the cluster, and requests tables while tierers have room. Raises ClusterUnavailable."""
        with self._turn:
            self._run()

    def confirm(self, table_id: int) -> None:
        """Ensures, before a commit is granted, that the table's assignment cannot have timed out in the cluster.

        Renews it first if its last renewal is old by either clock; the steady clock may stop while the machine is suspended. If the
        assignment proves to be lost, its round is fenced, as in any turn. Raises ClusterUnavailable if the cluster does not answer.
        """
        record = self._table_records.get(table_id)
        ref = None if record is None else record.assignment_ref
        if ref is None or self._is_confirmed(ref):
            return
        with self._turn:
            self._last_heartbeat = None
            self._run()
        if self._named(ref) is not None and not self._is_confirmed(ref):
            raise ClusterUnavailable(
                "the cluster does not confirm that the table is still assigned to this service: nothing is committed", table_id=table_id
            )

    def _is_confirmed(self, ref: AssignmentRef) -> bool:
        renewal, now = self._renewals.get(ref), self._table_records.now()
        if renewal is None:
            return False
        return max(milliseconds(now.steady - renewal.steady), milliseconds(now.wall - renewal.wall)) < CONFIRMED_MS

    def close(self) -> None:
        """Hands all tables back, so that the cluster need not wait for their timeout. Later turns do nothing.

        A round that was not granted its commit is fenced. The next coordinator begins another one.
        """
        with self._turn:
            session, self._closed = self._session, True
            if session is None or self._table_records.fenced is not None:
                return
            try:
                self._give_back(session)
            except LakewardError as error:
                _log.warning("the cluster could not be notified that this service stops", error=error.message)

    def _give_back(self, session: str) -> None:
        with self._table_records.changing(), self._table_records.together():
            for record in self._assigned():
                if record.has_turn and not record.unresolved_commit and not self._notifications.is_under_way(record.table_id):
                    self._table_records.put(assignments.stop(self._table_records.context(), record))
            report = assignments.report_of(
                self._assigned(), wants_table=False, unknown=self._unknown, is_being_notified=self._notifications.is_under_way
            )
        if report.finished or report.failed:
            self._send(session, report)

    def _run(self) -> None:
        if self._closed:
            return
        try:
            session = self._cluster.session()
            self._begin(session)
            for _ in range(MAX_HEARTBEATS):
                report = self._report()
                if report is None:
                    return
                if self._send(session, report).assigned is None:
                    return
        except ClusterUnavailable:
            self._end_session()
            raise

    def run_quietly(self) -> None:
        """Runs a turn without raising ClusterUnavailable. Logs once that the cluster does not answer, and once that it does again."""
        try:
            self.run()
        except ClusterUnavailable as error:
            if self._reachable:
                _log.warning("the cluster's scheduler does not answer: no table is assigned until it does", error=error.message)
            self._reachable = False
        else:
            if not self._reachable:
                _log.info("the cluster's scheduler answers again")
            self._reachable = True

    def _begin(self, session: str) -> None:
        """Begins a session. Assignments of another session no longer count."""
        if session != self._session:
            self._end_session()
            self._session, self._last_heartbeat = session, None

    def _end_session(self) -> None:
        if self._session is None:
            return
        self._session = None
        self._unknown.clear()
        self._renewals = {}
        with self._table_records.changing(), self._table_records.together():
            for record in self._assigned():
                self._table_records.put(assignments.end_session(self._table_records.context(), record))

    def _report(self) -> AssignmentReport | None:
        """Returns the next heartbeat; None if there is nothing to report."""
        now, options = self._table_records.now(), self._table_records.options
        with self._table_records.changing(), self._table_records.together():
            for record in self._assigned():
                if assignments.is_stale(record):
                    self._table_records.put(assignments.released(record))
            tierers = self._tierers()
            connected = any(assignments.takes_tables(tierer, now) for tierer in tierers)
            back = assignments.to_hand_back(self._assigned(), options, now, connected=connected)
            for record in back:
                self._table_records.put(assignments.hand_back(record))
                self._throttle = self._throttle.after_hand_back(now)
            records = [*self._assigned(), *(record for record in self._table_records.running() if record.assignment is None)]
            wants_table = self._throttle.may_ask(now) and assignments.free_slots(tierers, records, now) > 0
            report = assignments.report_of(
                records, wants_table=wants_table, unknown=self._unknown, is_being_notified=self._notifications.is_under_way
            )
        if report.renewed and not (report.finished or report.failed or wants_table) and not self._is_renewal_due():
            return None
        return None if report.is_empty else report

    def _is_renewal_due(self) -> bool:
        now = self._table_records.now()
        return self._last_heartbeat is None or now.milliseconds_since(self._last_heartbeat) >= RENEWAL_INTERVAL_MS

    def _send(self, session: str, report: AssignmentReport) -> AssignmentAnswer:
        sent = self._table_records.now()
        answer = self._cluster.heartbeat(session, report)
        self._take(session, answer)
        self._note_renewals(answer, sent)
        return answer

    def _note_renewals(self, answer: AssignmentAnswer, sent: Moment) -> None:
        """Replaces the renewals as a whole, because `confirm` reads them in other threads."""
        renewed = {judged.ref: sent for judged in answer.renewed if judged.judgement is Judgement.ACCEPTED}
        if answer.assigned is not None:
            renewed[answer.assigned.ref] = sent
        assigned = {record.assignment_ref for record in self._assigned()}
        self._renewals = {ref: moment for ref, moment in (self._renewals | renewed).items() if ref in assigned}

    def _take(self, session: str, answer: AssignmentAnswer) -> None:
        self._last_heartbeat = self._table_records.now().steady
        new = answer.assigned
        if new is not None and self._table_records.get(new.ref.table_id) is None:
            self._discover()  # the table may be new
        with self._table_records.changing(), self._table_records.together():
            for judged in answer.renewed:
                self._renewed(judged, session)
            for judged in (*answer.finished, *answer.failed):
                self._release(judged)
            if new is not None:
                self._assign(new, session)

    def _renewed(self, judged: JudgedAssignment, session: str) -> None:
        record = self._named(judged.ref)
        if record is None or judged.judgement is Judgement.UNDECIDED:
            return
        if judged.judgement is Judgement.ACCEPTED:
            self._table_records.put(assignments.renewed(record, session))
        else:
            why = f"the cluster says that the table is not assigned to this service any more: {judged.reason}"
            self._table_records.put(assignments.lose(self._table_records.context(), record, why))

    def _release(self, judged: JudgedAssignment) -> None:
        if judged.judgement is Judgement.UNDECIDED:
            return
        if judged.ref in self._unknown:
            self._unknown.remove(judged.ref)
        record = self._named(judged.ref)
        if record is not None:
            if judged.judgement is Judgement.GONE:
                _log.warning("the cluster had taken an assigned table away", table=str(record.path), reason=judged.reason)
            self._table_records.put(assignments.released(record))

    def _assign(self, new: NewAssignment, session: str) -> None:
        record = self._table_records.get(new.ref.table_id)
        if record is None:
            _log.warning("the cluster assigned a table that it does not list: it is handed back", table=str(new.path))
            self._unknown.append(new.ref)
            self._throttle = self._throttle.after_hand_back(self._table_records.now())
            return
        change = assignments.assign(self._table_records.context(), record, new.ref, session)
        if change.record.has_turn:
            self._throttle = self._throttle.after_begin()
            change = _due(self._table_records.context(), change)
        else:
            self._throttle = self._throttle.after_hand_back(self._table_records.now())
        self._table_records.put(change)

    def _assigned(self) -> list[TableRecord]:
        return [record for record in self._table_records.assigned() if record.state is not None]

    def _named(self, ref: AssignmentRef) -> TableRecord | None:
        """Returns the record with exactly this assignment; None if there is none."""
        record = self._table_records.get(ref.table_id)
        return record if record is not None and record.assignment_ref == ref else None


def _due(ctx: Context, change: Change) -> Change:
    """Returns the change together with what follows from it at once."""
    following = table_lifecycle.due(ctx, change.record)
    return change if following is None else following.after(change)
