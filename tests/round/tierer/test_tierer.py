"""The tierer's loop against a scripted coordinator: what it reports, what it starts, how it stops."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping

import pyarrow as pa
import pytest
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from support.clusters.memory_cluster import MemoryCluster, MemoryReader, log_table
from support.lakes.memory_lake import MemoryLake
from support.running.processes import wait_for
from support.worlds.leases import NoLeaseCalls, keeper
from tiering.clock import RandomIds, SystemClock
from tiering.errors import AccessDenied, Cancelled, LakewardError, SchemaDrift, ServiceUnreachable, Unauthenticated
from tiering.lake.marker import Marker
from tiering.model.rounds import Assignment, Phase, RoundState
from tiering.model.tables import BucketKey, Offsets, TableBucket, TablePath
from tiering.round import tierer as tierer_module
from tiering.round.messages import RoundReport, report_to_pb
from tiering.round.ports import ProgressReport, ProposedCommit, ReportAnswer
from tiering.round.runner import RoundEnvironment, RoundRunner
from tiering.round.steps.actions import RoundOutcome
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.round.tierer import Tierer, TiererOptions
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.common_pb2 import PbError, PbTablePath

TABLES = [log_table(number, TablePath("sales", f"t{number}")) for number in (1, 2, 3)]
STALLED_MS = 1_000
"""Longer than the splits of a round that goes well may rest on a busy machine."""
Answer = Callable[[pb.LakeTieringHeartbeatRequest], pb.LakeTieringHeartbeatResponse | LakewardError | None]


class Call:
    """A heartbeat that was answered, or is held for ever (None)."""

    def __init__(self, answer: pb.LakeTieringHeartbeatResponse | LakewardError | None) -> None:
        self._answer = answer

    def wait(self, wake: threading.Event) -> bool:
        if self._answer is None:
            wake.wait(30)
        wake.set()
        return self._answer is not None

    def result(self) -> pb.LakeTieringHeartbeatResponse:
        if isinstance(self._answer, LakewardError):
            raise self._answer
        return self._answer or pb.LakeTieringHeartbeatResponse()


class ScriptedCoordinator(NoLeaseCalls):
    """A `Transport`. `answer` decides each heartbeat; the fence waits for `open_fence`."""

    def __init__(self) -> None:
        self.requests: list[pb.LakeTieringHeartbeatRequest] = []
        self.answer: Answer = lambda request: None
        self.open_plan, self.open_fence = threading.Event(), threading.Event()
        self.open_plan.set()
        self.open_fence.set()
        self.at_fence: list[str] = []
        self.leases = keeper(self)
        self.leased: set[TableBucket] = set()

    def heartbeat(self, request: pb.LakeTieringHeartbeatRequest, timeout_ms: int) -> Call:
        self.requests.append(request)
        return Call(self.answer(request))

    def record_plan(self, assignment: Assignment, lake_table_uuid: str, stops: Offsets, splits: int, passed_head: int | None) -> None:
        self.open_plan.wait(30)

    def begin_lake_commit(self, assignment: Assignment, proposed: ProposedCommit) -> Mapping[str, str]:
        self.at_fence.append(assignment.round_id)
        self.open_fence.wait(30)
        return {}

    def commit_lake_snapshot(self, assignment: Assignment, marker: Marker, lake_snapshot_id: int) -> None:
        """Not looked at here."""

    def report_progress(
        self, assignment: Assignment, phase: Phase, report: ProgressReport, answered: Callable[[ReportAnswer], None]
    ) -> None:
        """Not looked at here."""

    def acquire_lease(self, lease_id: str, ttl_ms: int, snapshots: Mapping[TableBucket, int]) -> Collection[TableBucket]:
        self.leased |= set(snapshots)
        return ()

    def drop_lease(self, lease_id: str) -> None:
        self.leased.clear()

    def finished(self) -> list[str]:
        return [report.round_id for request in self.requests for report in request.finished_tables]

    def failed(self) -> list[pb.PbHeartbeatReqForTable]:
        return [report for request in self.requests for report in request.failed_tables]


def hand_over(number: int, round_id: str) -> pb.LakeTieringHeartbeatResponse:
    path = PbTablePath(database_name="sales", table_name=f"t{number}")
    info = pb.PbLakeTieringTableInfo(table_id=number, path=path, tiering_epoch=1, round_id=round_id, max_duration_ms=60_000)
    return pb.LakeTieringHeartbeatResponse(coordinator_epoch=1, tiering_table=info)


def answers(*script: pb.LakeTieringHeartbeatResponse | LakewardError) -> Answer:
    """These, one a heartbeat; then reports are answered and empty requests held."""
    rest = list(script)

    def answer(request: pb.LakeTieringHeartbeatRequest) -> pb.LakeTieringHeartbeatResponse | LakewardError | None:
        if rest:
            return rest.pop(0)
        return None if request.max_wait_ms else pb.LakeTieringHeartbeatResponse()

    return answer


def answers_to_requests(*script: pb.LakeTieringHeartbeatResponse | LakewardError) -> Answer:
    """These, one a heartbeat that requests a table."""
    following = answers(*script)

    def answer(request: pb.LakeTieringHeartbeatRequest) -> pb.LakeTieringHeartbeatResponse | LakewardError | None:
        return following(request) if request.request_table else pb.LakeTieringHeartbeatResponse()

    return answer


@pytest.fixture
def coordinator() -> ScriptedCoordinator:
    return ScriptedCoordinator()


@pytest.fixture
def start(coordinator: ScriptedCoordinator) -> Iterator[Callable[[int], Tierer]]:
    """Runs tierers in threads; stops them at the end."""
    cluster, lake = MemoryCluster(*TABLES), MemoryLake()
    for table in TABLES:
        cluster.append(table, 0, 5)
    started: list[tuple[Tierer, threading.Thread]] = []

    def run(slots: int, stalled_after_ms: int = 0) -> Tierer:
        inline = InlineTaskRunner()
        world = RoundEnvironment(coordinator, cluster, lambda _: lake, inline, inline, SystemClock(), RandomIds(), 0, coordinator.leases)
        options = TiererOptions(
            "t-1", "host", "app", "1", 0, "random-1", slots=slots, poll_ms=5, stalled_after_ms=stalled_after_ms, stop_grace_ms=5_000
        )
        tierer = Tierer(world, options)
        thread = threading.Thread(target=tierer.run, daemon=True)
        thread.start()
        started.append((tierer, thread))
        return tierer

    yield run
    coordinator.open_plan.set()
    coordinator.open_fence.set()
    for tierer, thread in started:
        tierer.stop()
        thread.join(60)
        assert not thread.is_alive()


def test_a_round_is_run_and_reported_as_finished(coordinator: ScriptedCoordinator, start: Callable[[int], Tierer]) -> None:
    coordinator.answer = answers(hand_over(1, "r1"))
    start(1)
    wait_for("the report", lambda: "r1" in coordinator.finished())
    [report] = [report for request in coordinator.requests for report in request.finished_tables]
    assert (report.table_id, report.stats.records_written, report.empty) == (1, 5, False)
    assert {request.tierer.incarnation for request in coordinator.requests} == {"random-1"}


def test_a_report_is_repeated_until_a_heartbeat_was_answered(coordinator: ScriptedCoordinator, start: Callable[[int], Tierer]) -> None:
    away = ServiceUnreachable("no service answers")
    lost = [away, away]

    def answer(request: pb.LakeTieringHeartbeatRequest) -> pb.LakeTieringHeartbeatResponse | LakewardError | None:
        if len(coordinator.requests) == 1:
            return hand_over(1, "r1")
        if request.finished_tables and lost:
            return lost.pop()
        return None if request.max_wait_ms else pb.LakeTieringHeartbeatResponse()

    coordinator.answer = answer
    start(1)
    wait_for("three reports", lambda: coordinator.finished() == ["r1"] * 3)
    sequences = [request.tierer.sequence for request in coordinator.requests]
    assert sequences == sorted(set(sequences))


def test_an_idle_tierer_pauses_after_each_heartbeat_that_failed(
    coordinator: ScriptedCoordinator, start: Callable[[int], Tierer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tierer_module, "RETRY_MS", 3_600_000)
    coordinator.answer = lambda request: ServiceUnreachable("no service answers")
    tierer = start(1)
    wait_for("a heartbeat", lambda: coordinator.requests)
    tierer.stop()
    wait_for("the last heartbeat", lambda: coordinator.requests[-1].stopping)
    assert [request.stopping for request in coordinator.requests[:2]] == [False, True]


def test_all_slots_are_filled_and_a_round_that_runs_is_not_started_again(
    coordinator: ScriptedCoordinator, start: Callable[[int], Tierer]
) -> None:
    coordinator.open_fence.clear()
    coordinator.answer = answers(hand_over(1, "r1"), hand_over(1, "r1"), hand_over(2, "r2"))
    start(2)
    wait_for("two rounds at the fence", lambda: sorted(coordinator.at_fence) == ["r1", "r2"])
    full = wait_for(
        "a heartbeat of a full tierer",
        lambda: next((request for request in coordinator.requests if len(request.tiering_tables) == 2), None),
    )
    assert not full.request_table
    coordinator.open_fence.set()
    wait_for("both reports", lambda: sorted(set(coordinator.finished())) == ["r1", "r2"])


def test_a_round_that_hangs_leaves_its_slot_to_another_table(
    coordinator: ScriptedCoordinator, start: Callable[[int], Tierer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiering.round.tierer.HANGING_AFTER_MS", 50)
    monkeypatch.setattr("tiering.round.tierer.HANGING_ROUNDS", 1)
    monkeypatch.setattr("tiering.round.tierer.FULL_POLL_MS", 50)
    coordinator.open_fence.clear()
    coordinator.answer = answers_to_requests(hand_over(1, "r1"), hand_over(2, "r2"), hand_over(3, "r3"))
    start(1)
    wait_for("two rounds that hang at the fence", lambda: sorted(coordinator.at_fence) == ["r1", "r2"])
    heartbeats = len(coordinator.requests)
    wait_for("more heartbeats of a full tierer", lambda: len(coordinator.requests) > heartbeats + 2)
    assert not coordinator.requests[-1].request_table
    coordinator.open_fence.set()
    wait_for("all reports", lambda: {"r1", "r2", "r3"} <= set(coordinator.finished()))


@pytest.fixture
def hanging_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Reads of the table t1 hang until it is set."""
    over, read = threading.Event(), MemoryReader.read

    def hang(reader: MemoryReader) -> Iterator[pa.RecordBatch]:
        assert reader.table.table_id != TABLES[0].table_id or over.wait(30)
        return read(reader)

    monkeypatch.setattr(MemoryReader, "read", hang)
    yield over
    over.set()


def test_a_round_whose_splits_hang_is_given_up_and_its_slot_is_free(
    coordinator: ScriptedCoordinator, start: Callable[..., Tierer], hanging_reads: threading.Event
) -> None:
    coordinator.answer = answers_to_requests(hand_over(1, "r1"), hand_over(2, "r2"))
    tierer = start(1, stalled_after_ms=STALLED_MS)
    [report, *_] = wait_for("the report", lambda: coordinator.failed())
    assert (report.round_id, report.error_class, report.error_retryable) == ("r1", "RoundStalled", True)
    wait_for("the other table", lambda: coordinator.finished() == ["r2"])
    thread = next(thread for thread in threading.enumerate() if thread.name == "round-r1")
    assert not any(renewal.round_id == "r1" for renewal in coordinator.requests[-1].tiering_tables)
    reports = len(coordinator.failed())
    hanging_reads.set()
    thread.join(60)
    assert not thread.is_alive()
    assert (coordinator.at_fence, len(coordinator.failed()), tierer._outbox) == (["r2"], reports, [])


@pytest.mark.parametrize(("most", "after_ms"), [(0, 1), (8, 0)], ids=["as many hang as may", "off"])
def test_a_round_is_kept_where_none_may_be_given_up(
    coordinator: ScriptedCoordinator,
    start: Callable[..., Tierer],
    hanging_reads: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    after_ms: int,
) -> None:
    monkeypatch.setattr("tiering.round.tierer.GIVEN_UP_ROUNDS", most)
    monkeypatch.setattr("tiering.round.tierer.FULL_POLL_MS", 5)
    coordinator.answer = answers_to_requests(hand_over(1, "r1"))
    start(1, stalled_after_ms=after_ms)
    wait_for("heartbeats long after that", lambda: sum(1 for request in coordinator.requests if request.tiering_tables) > 50)
    assert [renewal.round_id for renewal in coordinator.requests[-1].tiering_tables] == ["r1"]
    assert not coordinator.failed()


def test_a_round_that_was_not_asked_for_takes_no_thread(coordinator: ScriptedCoordinator, start: Callable[[int], Tierer]) -> None:
    coordinator.open_fence.clear()
    coordinator.answer = answers(hand_over(1, "r1"), hand_over(2, "r2"), hand_over(3, "r3"))
    start(2)
    wait_for("an answer to a full tierer", lambda: any(len(request.tiering_tables) == 2 for request in coordinator.requests))
    coordinator.open_fence.set()
    wait_for("both reports", lambda: {"r1", "r2"} <= set(coordinator.finished()))
    wait_for("an idle tierer", lambda: coordinator.requests[-1].max_wait_ms)
    assert sorted(coordinator.at_fence) == ["r1", "r2"]


def test_a_refused_renewal_cancels_the_round(coordinator: ScriptedCoordinator, start: Callable[[int], Tierer]) -> None:
    coordinator.open_plan.clear()
    error = PbError(error_class="Fenced", message="an older epoch")
    refused = pb.PbHeartbeatRespForTable(table_id=1, round_id="r1", error=error, cancel=True)

    def answer(request: pb.LakeTieringHeartbeatRequest) -> pb.LakeTieringHeartbeatResponse | LakewardError | None:
        renewals = sum(1 for request in coordinator.requests if request.tiering_tables)
        if len(coordinator.requests) == 1:
            return hand_over(1, "r1")
        if renewals > 1:  # the first refusal was taken in by now
            coordinator.open_plan.set()
        if request.tiering_tables:
            return pb.LakeTieringHeartbeatResponse(tiering_table_resp=[refused])
        return None if request.max_wait_ms else pb.LakeTieringHeartbeatResponse()

    coordinator.answer = answer
    start(2)
    [report, *_] = wait_for("the round's end", lambda: coordinator.failed())
    assert (report.round_id, report.error_message, report.tierer_stopped) == ("r1", "an older epoch", False)
    assert coordinator.at_fence == []


def test_a_stop_gives_back_what_is_not_granted_as_tierer_stopped(coordinator: ScriptedCoordinator, start: Callable[[int], Tierer]) -> None:
    coordinator.open_fence.clear()
    coordinator.answer = answers(hand_over(1, "r1"))
    tierer = start(1)
    wait_for("the round at its fence", lambda: coordinator.at_fence)
    tierer.stop()
    last = wait_for("the last heartbeat", lambda: next((request for request in coordinator.requests if request.stopping), None))
    assert [(report.round_id, report.tierer_stopped, report.error_message) for report in last.failed_tables] == [
        ("r1", True, "tierer stopped")
    ]
    assert not last.request_table


class StuckRound:
    """A round that still reads KV snapshots when its tierer stops."""

    def lose_snapshots(self, message: str) -> None:
        raise AssertionError(message)


def test_a_stop_drops_the_lease_that_rounds_still_hold(coordinator: ScriptedCoordinator, start: Callable[[int], Tierer]) -> None:
    tierer = start(1)
    coordinator.leases.acquire({TableBucket(1, BucketKey(None, 0)): 3}, StuckRound())
    assert coordinator.leased
    tierer.stop()
    wait_for("the end of the lease, long before it expires", lambda: not coordinator.leased)


class Panic(BaseException):
    """A panic like those of libraries in Rust: no `Exception`."""


def test_a_round_that_a_panic_ends_is_reported_as_failed(
    coordinator: ScriptedCoordinator, start: Callable[[int], Tierer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def panicking(*_: object) -> None:
        raise Panic("not aligned")

    monkeypatch.setattr(ScriptedCoordinator, "record_plan", panicking)
    coordinator.answer = answers_to_requests(hand_over(1, "r1"), hand_over(2, "r2"))
    start(1)
    wait_for("both reports", lambda: {report.round_id for report in coordinator.failed()} == {"r1", "r2"})  # the slot is free again
    report = coordinator.failed()[0]
    assert (report.error_class, report.error_message) == ("Panic", "Panic: not aligned")
    assert report.error_retryable


@pytest.mark.parametrize("defect", [Panic("a defect"), SystemExit(1), KeyboardInterrupt(), AssertionError("a defect")])
def test_whatever_ends_a_rounds_thread_its_end_is_reported(
    coordinator: ScriptedCoordinator, start: Callable[[int], Tierer], monkeypatch: pytest.MonkeyPatch, defect: BaseException
) -> None:
    def broken(self: RoundRunner) -> RoundOutcome:
        raise defect

    monkeypatch.setattr(RoundRunner, "run", broken)
    coordinator.answer = answers(hand_over(1, "r1"))
    start(1)
    [report, *_] = wait_for("the report", lambda: coordinator.failed())
    assert (report.round_id, report.error_class) == ("r1", type(defect).__name__)


def test_a_round_whose_thread_is_gone_is_reported_and_never_renewed(
    coordinator: ScriptedCoordinator, start: Callable[[int], Tierer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tierer, "_run_round", lambda *_: None)  # its thread ends without a word
    coordinator.answer = answers(hand_over(1, "r1"))
    start(2)
    [report, *_] = wait_for("the report", lambda: coordinator.failed())
    assert (report.round_id, report.error_class, report.error_retryable) == ("r1", "RoundLost", True)
    idle = wait_for("an idle heartbeat", lambda: next((request for request in coordinator.requests[1:] if request.max_wait_ms), None))
    assert not idle.tiering_tables


def test_a_round_that_gets_no_thread_is_given_back(
    coordinator: ScriptedCoordinator, start: Callable[[int], Tierer], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = threading.Thread.start

    def exhausted(thread: threading.Thread) -> None:
        if thread.name.startswith("round-"):
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", exhausted)
    coordinator.answer = answers(hand_over(1, "r1"))
    start(1)
    [report, *_] = wait_for("the report", lambda: coordinator.failed())
    assert (report.round_id, report.error_message) == ("r1", "RuntimeError: can't start new thread")


def test_the_loop_survives_an_answer_that_makes_no_sense(coordinator: ScriptedCoordinator, start: Callable[[int], Tierer]) -> None:
    nonsense = hand_over(1, "r1")
    nonsense.tiering_table.path.database_name = "../.."
    coordinator.answer = answers_to_requests(nonsense, hand_over(2, "r2"))
    start(1)
    wait_for("the round after it", lambda: "r2" in coordinator.finished())


def refusal(table_id: int, round_id: str) -> pb.PbHeartbeatRespForTable:
    error = PbError(error_class="Fenced", message=f"refused {round_id}")
    return pb.PbHeartbeatRespForTable(table_id=table_id, error=error, cancel=True, round_id=round_id)


def two_rounds_of_one_table(coordinator: ScriptedCoordinator, *refusals: pb.PbHeartbeatRespForTable) -> Answer:
    """r1 and r2 of table 1 run; the first heartbeat that lists both is answered with `refusals`, and from the next one on plans pass."""
    rest = [hand_over(1, "r1"), hand_over(1, "r2")]

    def answer(request: pb.LakeTieringHeartbeatRequest) -> pb.LakeTieringHeartbeatResponse | LakewardError | None:
        if rest:
            return rest.pop(0)
        both = sum(1 for request in coordinator.requests if len(request.tiering_tables) == 2)
        if both == 1 and len(request.tiering_tables) == 2:
            return pb.LakeTieringHeartbeatResponse(tiering_table_resp=refusals)
        if both:
            coordinator.open_plan.set()  # whatever it lists: a refused round may be gone from it
        if len(request.tiering_tables) == 2:
            return pb.LakeTieringHeartbeatResponse()
        return None if request.max_wait_ms else pb.LakeTieringHeartbeatResponse()

    return answer


def test_the_refusal_of_an_old_round_ends_that_round_and_not_the_new_one_of_its_table(
    coordinator: ScriptedCoordinator, start: Callable[[int], Tierer]
) -> None:
    coordinator.open_plan.clear()
    coordinator.answer = two_rounds_of_one_table(coordinator, refusal(1, "r1"))
    start(3)
    [report, *_] = wait_for("the old round's end", lambda: coordinator.failed())
    assert (report.round_id, report.error_message) == ("r1", "refused r1")
    wait_for("the new round's end", lambda: "r2" in coordinator.finished())


def test_every_log_line_of_a_round_names_round_table_and_epoch(coordinator: ScriptedCoordinator, start: Callable[[int], Tierer]) -> None:
    coordinator.answer = answers(hand_over(1, "r1"), hand_over(2, "r2"))
    with capture_logs(processors=[merge_contextvars]) as lines:
        start(2)
        wait_for("both ends", lambda: [line["event"] for line in lines].count("round ended") == 2)
    for table, round_id in (("sales.t1", "r1"), ("sales.t2", "r2")):
        of_round = [line for line in lines if line.get("round_id") == round_id]
        assert {"round started", "round step", "round ended"} <= {line["event"] for line in of_round}
        assert {(line["table"], line["tiering_epoch"]) for line in of_round} == {(table, 1)}
    assert all("round_id" in line for line in lines if line["event"].startswith("round"))


def test_a_fenced_tierer_says_so_once_and_what_to_do(coordinator: ScriptedCoordinator, start: Callable[[int], Tierer]) -> None:
    coordinator.answer = lambda request: pb.LakeTieringHeartbeatResponse(fenced=True)
    with capture_logs() as lines:
        start(1)
        wait_for("three heartbeats", lambda: len(coordinator.requests) > 3)
    [line] = [line for line in lines if "fenced" in line["event"]]
    assert (line["log_level"], line["tierer_id"]) == ("error", "t-1")
    assert "start a new process" in line["event"]


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (Unauthenticated("revoked"), True),
        (AccessDenied("no TIERER"), True),
        (Cancelled("paused"), True),
        (SchemaDrift("column"), False),
    ],
)
def test_a_round_that_the_service_refused_is_tried_again(error: LakewardError, retryable: bool) -> None:
    """Else a table would stay Failed for a token that was replaced meanwhile, and nothing that its user can call would free it."""
    assignment = Assignment(1, TABLES[0].path, 1, 1, "r1")
    report = report_to_pb(RoundReport(assignment, RoundOutcome(RoundState.FAILED, error=error)))
    assert report.error_retryable is retryable
