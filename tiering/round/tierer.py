"""The tierer: a long-running service that requests tables, runs their rounds and reports how they ended.

It is stateless: all that it needs after a restart is in the coordinator and the lake. One loop calls the coordinator, and each round has a
thread. The report of an ended round stays in the outbox until the coordinator has answered a heartbeat that carried it; sending it twice is
harmless. Only the answer to the newest heartbeat counts: a table in the answer to an overtaken heartbeat is assigned again, because the
newer request does not list it (DESIGN 4).
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import structlog

from tiering.errors import Cancelled, LakewardError, RoundFailed
from tiering.log_context import round_lines
from tiering.model.rounds import Assignment, RoundState
from tiering.round.messages import RoundReport, renewal_to_pb, report_to_pb
from tiering.round.runner import RoundEnvironment, RoundRunner
from tiering.round.steps.actions import RoundOutcome
from tiering.round.tasks.split_work import as_lakeward_error
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.codec import Codec
from tiering.wire.model_codecs import ASSIGNMENT

log = structlog.get_logger(__name__)

ANSWER_TIMEOUT_MS = 10_000
"""Longest time of a heartbeat, in addition to the time for which the coordinator may hold it."""
RETRY_MS = 1_000
"""Delay after a failed heartbeat."""
FULL_POLL_MS = 3_000
"""Interval of heartbeats while every slot has a round; cancellations of rounds arrive with the answers."""
HANGING_AFTER_MS = 5_000
"""A round that has waited for one answer, for example of a lake, for longer than this does no work: its slot goes to another table in the
meantime.
"""
HANGING_ROUNDS = 32
"""Maximum number of waiting rounds in addition to those in slots: each has a thread, and none has rows in memory."""
GIVEN_UP_ROUNDS = 8
"""Maximum number of threads of given-up rounds that still hang; each may have rows in memory. Beyond that, further rounds keep their slots:
the tierer's storage does not answer, and an operator has to check it.
"""
LAST_HEARTBEAT_MS = 2_000
"""Timeout of the last heartbeat, within the ten seconds that a stopping tierer has."""


@dataclass(frozen=True)
class TiererOptions:
    """Settings of a tierer. Times in milliseconds."""

    tierer_id: str
    host: str
    application_id: str
    version: str
    started_at_ms: int
    incarnation: str | None = None
    """Random name of this process. It distinguishes two processes with the same tierer id, which no clock can do."""
    slots: int = 1
    """Maximum number of concurrent rounds, not counting those that hang."""
    poll_ms: int = 1_000
    """Interval of heartbeats while rounds run and a slot is free."""
    service_timeout_ms: int = 120_000
    """The coordinator's service timeout. Heartbeats are sent at least four times as often."""
    stalled_after_ms: int = 1_800_000
    """A round whose splits made no progress for this long is given up; 0 = never."""
    stop_grace_ms: int = 6_000
    """Time for which a round with a granted commit may continue after a stop."""


_TIERER = Codec(
    TiererOptions, pb.PbTierer, elsewhere=("poll_ms", "service_timeout_ms", "stalled_after_ms", "stop_grace_ms"), beside=("sequence",)
)


def busy_interval_ms(options: TiererOptions, *, has_free_slot: bool, upkeep_runs: bool) -> int:
    """Returns the time between heartbeats while rounds run. The slot of an upkeep round goes to the next waiting table, so the tierer asks
    as often as with a free slot.
    """
    if has_free_slot or upkeep_runs:
        return options.poll_ms
    return min(options.service_timeout_ms // 4, FULL_POLL_MS)


@dataclass
class _RunningRound:
    assignment: Assignment
    runner: RoundRunner
    thread: threading.Thread
    started_ms: int


class Tierer:
    """Runs until `stop` is called. `run` is the loop; all other methods are safe to call from other threads."""

    def __init__(self, world: RoundEnvironment, options: TiererOptions) -> None:
        self._world = world
        self._watch = world.watch
        self._options = options
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._running: dict[str, _RunningRound] = {}
        self._given_up: list[threading.Thread] = []
        self._outbox: list[RoundReport] = []
        self._sequence = 0
        self._fenced = False

    def stop(self) -> None:
        """Ends `run`: tables whose commit is not granted yet are given back at once ("tierer stopped")."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Runs the loop until `stop`, and until the coordinator has been informed or cannot be reached. At the end drops the lease on KV
        snapshots.
        """
        delay_ms = 0
        while not self._stopping.is_set():
            delay_ms = self._beat_safely() if delay_ms == 0 else self._pause(delay_ms)
        self._give_back()
        self._world.leases.close()

    def _pause(self, delay_ms: int) -> int:
        self._wake.wait(delay_ms / 1_000)
        return 0

    def _beat_safely(self) -> int:
        """Sends one heartbeat as `_beat` does. Only a signal ends the loop, because without it rounds would continue and their ends would
        not be reported.
        """
        try:
            return self._beat()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            log.exception("a heartbeat failed unexpectedly; retrying")
            return RETRY_MS

    def _beat(self) -> int:
        """Sends one heartbeat; returns the delay before the next in milliseconds."""
        self._wake.clear()
        request, reports = self._request()
        sent_ms = self._world.clock.monotonic_ms()
        call = self._world.transport.heartbeat(request, request.max_wait_ms + ANSWER_TIMEOUT_MS)
        if request.max_wait_ms:
            if not call.wait(self._wake):
                return 0  # the heartbeat is held and overtaken: there is something to report now
            self._take_back_wake()
        try:
            answer = call.result()
        except LakewardError as error:
            log.warning("heartbeat failed", error=error.message)
            self._watch.heartbeat_failed()
            return RETRY_MS
        self._watch.heartbeat_answered()
        self._settle(answer, reports)
        started = self._start(answer)
        held_ms = self._world.clock.monotonic_ms() - sent_ms
        return 0 if started or reports else self._interval(held_ms)

    def _take_back_wake(self) -> None:
        """Clears the wake-up that the answer itself caused, so that it does not cut the next pause short. Pending reports or a stop set it
        again.
        """
        self._wake.clear()
        with self._lock:
            reports_wait = bool(self._outbox)
        if reports_wait or self._stopping.is_set():
            self._wake.set()

    def _interval(self, held_ms: int) -> int:
        """Returns the time to the next heartbeat. An idle tierer's requests are held by the coordinator, so it need not wait; a busy tierer
        polls.
        """
        with self._lock:
            busy, free = len(self._running), self._free_slots()
            upkeep_runs = any(running_round.assignment.upkeep is not None for running_round in self._running.values())
        if not busy:
            return max(self._options.poll_ms - held_ms, 0)
        return busy_interval_ms(self._options, has_free_slot=free > 0, upkeep_runs=upkeep_runs)

    def _free_slots(self) -> int:
        """Returns how many rounds may begin now; 0 or less = none. Called under the lock."""
        now_ms = self._world.clock.monotonic_ms()
        hanging = sum(running.runner.hangs(now_ms, HANGING_AFTER_MS) for running in self._running.values())
        return self._options.slots - len(self._running) + min(hanging, HANGING_ROUNDS)

    def _request(self, stopping: bool = False) -> tuple[pb.LakeTieringHeartbeatRequest, list[RoundReport]]:
        options = self._options
        with self._lock:
            self._sequence += 1
            self._report_dead()
            self._give_up_stalled()
            reports = list(self._outbox)
            running = [running_round.assignment for running_round in self._running.values()]
            wants_table = not stopping and self._free_slots() > 0
        request = pb.LakeTieringHeartbeatRequest(
            tierer=_TIERER.to_pb(options, sequence=self._sequence),
            tiering_tables=[renewal_to_pb(assignment) for assignment in running],
            finished_tables=[report_to_pb(report) for report in reports if report.finished],
            failed_tables=[report_to_pb(report) for report in reports if not report.finished],
            request_table=wants_table,
            max_wait_ms=0 if reports or running or not wants_table else options.service_timeout_ms // 4,
            stopping=stopping,
        )
        return request, reports

    def _report_dead(self) -> None:
        """Reports rounds as failed whose threads ended without a report. Called under the lock."""
        for round_id, running in list(self._running.items()):
            if not running.thread.is_alive():
                del self._running[round_id]
                error = RoundFailed("the thread of the round ended without a report", cause_class="RoundLost", round_id=round_id)
                with _lines_of(running.assignment):
                    log.error("a round was lost")
                self._outbox.append(RoundReport(running.assignment, RoundOutcome(RoundState.FAILED, error=error)))

    def _give_up_stalled(self) -> None:
        """Reports rounds as failed whose splits made no progress for too long. Called under the lock.

        Their threads keep running, because a hanging read cannot be ended. If the read returns later, the round begins no commit. If the
        process dies in between, the round ends with its tierer; a report whose answer is lost is sent again.
        """
        after_ms = self._options.stalled_after_ms
        if after_ms <= 0:
            return
        self._given_up = [thread for thread in self._given_up if thread.is_alive()]
        for round_id, running in list(self._running.items()):
            if len(self._given_up) >= GIVEN_UP_ROUNDS:
                return
            outcome = running.runner.give_up(after_ms)
            if outcome is not None:
                del self._running[round_id]
                self._given_up.append(running.thread)
                self._outbox.append(RoundReport(running.assignment, outcome))
                with _lines_of(running.assignment):
                    _log_end(outcome)
                self._watch.round_ended(running.assignment, outcome, self._world.clock.monotonic_ms() - running.started_ms)

    def _settle(self, answer: pb.LakeTieringHeartbeatResponse, reports: list[RoundReport]) -> None:
        """Processes an answer: removes the reports that it answers, and cancels the rounds that it refuses."""
        with self._lock:
            self._outbox = [report for report in self._outbox if report not in reports]
            running = dict(self._running)
        if answer.fenced and not self._fenced:
            log.error(
                "this tierer was fenced: it gets no more tables. Stop it. To tier again, start a new process, which is not fenced",
                tierer_id=self._options.tierer_id,
            )
        self._fenced = answer.fenced
        for item in answer.tiering_table_resp:
            refused = running.get(item.round_id)
            if refused is not None and (item.cancel or item.HasField("error")):
                why = item.cancel_message or item.error.message or "the coordinator cancelled the round"
                if refused.runner.cancel(why):
                    with _lines_of(refused.assignment):
                        log.warning("round is to end", reason=why)

    def _start(self, answer: pb.LakeTieringHeartbeatResponse) -> bool:
        """Starts the round of an assignment unless it runs already."""
        if not answer.HasField("tiering_table") or self._stopping.is_set():
            return False
        assignment = ASSIGNMENT.from_pb(answer.tiering_table, coordinator_epoch=answer.coordinator_epoch)
        with self._lock:
            if assignment.round_id in self._running or self._free_slots() <= 0:
                return False  # the table was not requested; every round takes a thread
            try:
                self._start_thread(assignment)
            except Exception as error:  # no memory for a thread: another tierer may have some
                with _lines_of(assignment):
                    log.exception("a round could not be started")
                self._running.pop(assignment.round_id, None)
                self._outbox.append(RoundReport(assignment, RoundOutcome(RoundState.FAILED, error=as_lakeward_error(error))))
        return True

    def _start_thread(self, assignment: Assignment) -> None:
        """Starts the round's thread. Called under the lock, since a heartbeat lists the rounds whose threads are alive."""
        runner = RoundRunner(self._world, assignment)
        thread = threading.Thread(target=self._run_round, args=(runner, assignment), name=f"round-{assignment.round_id}", daemon=True)
        self._running[assignment.round_id] = _RunningRound(assignment, runner, thread, self._world.clock.monotonic_ms())
        with _lines_of(assignment):
            log.debug("round started")
        thread.start()

    def _run_round(self, runner: RoundRunner, assignment: Assignment) -> None:
        """Runs the round; its end is reported even after a panic."""
        outcome = RoundOutcome(RoundState.FAILED, error=RoundFailed("the round ended without an outcome", round_id=assignment.round_id))
        started_ms = self._world.clock.monotonic_ms()
        with _lines_of(assignment):
            self._watch.round_started(assignment)
            try:
                outcome = runner.run()
            except BaseException as error:
                outcome = replace(outcome, error=as_lakeward_error(error))
            finally:
                if self._ended(assignment, outcome):
                    _log_end(outcome)
                    self._watch.round_ended(assignment, outcome, self._world.clock.monotonic_ms() - started_ms)

    def _ended(self, assignment: Assignment, outcome: RoundOutcome) -> bool:
        """Queues the report; returns False if the round was reported before it ended, and does not belong to this tierer any more."""
        with self._lock:
            if self._running.pop(assignment.round_id, None) is None:
                return False
            self._outbox.append(RoundReport(assignment, outcome, tierer_stopped=self._stopping.is_set()))
        self._wake.set()
        return True

    def _give_back(self) -> None:
        """After a stop, cancels rounds that are not granted, lets the others end within the grace period, and sends a last heartbeat."""
        with self._lock:
            running = list(self._running.values())
        for running_round in running:
            running_round.runner.cancel("tierer stopped")
        end_ms = self._world.clock.monotonic_ms() + self._options.stop_grace_ms
        for running_round in running:
            if running_round.runner.granted:
                running_round.thread.join(max(end_ms - self._world.clock.monotonic_ms(), 0) / 1_000)
        self._report_abandoned()
        request, _ = self._request(stopping=True)
        call = self._world.transport.heartbeat(request, LAST_HEARTBEAT_MS)
        try:
            call.result()
        except LakewardError as error:
            log.warning("could not inform the coordinator that this tierer stops", error=error.message)

    def _report_abandoned(self) -> None:
        """Reports rounds that did not end in time as stopped. The next round reads from the lake whether the commit of a granted one
        landed.
        """
        with self._lock:
            for running_round in self._running.values():
                if not running_round.runner.granted:
                    outcome = RoundOutcome(RoundState.CANCELLED, error=Cancelled("tierer stopped"))
                    self._outbox.append(RoundReport(running_round.assignment, outcome, tierer_stopped=True))
            self._running.clear()


def _lines_of(assignment: Assignment) -> AbstractContextManager[object]:
    return round_lines(assignment.round_id, assignment.path, assignment.tiering_epoch)


def _log_end(outcome: RoundOutcome) -> None:
    state = outcome.state.value
    if outcome.state is RoundState.EMPTY:
        log.debug("round ended", state=state)
    elif outcome.error is None:
        place = outcome.stats.place
        log.info("round ended", state=state, records=outcome.stats.records_written, ran_on=None if place is None else place.ran_on.value)
    else:
        log.warning("round ended", state=state, error_class=outcome.error.error_class, error=outcome.error.message)
