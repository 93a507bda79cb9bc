"""Splits of a large round on their way from a meter to SQL, over real gRPC."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from support.running.processes import wait_for
from support.services.served import OPTIONS, at_uri
from support.worlds.coordinator_world import World
from tiering.coordinator.tierers.progress import Progress
from tiering.lake.base import WriterInitContext
from tiering.model.rounds import Assignment, Phase
from tiering.model.splits import SplitPosition, SplitState, TieringLogSplit
from tiering.model.tables import BucketKey
from tiering.round.ports import SplitTask
from tiering.round.progress import RoundMeter
from tiering.round.progress_reports import REPORT_TASKS, ProgressReports
from tiering.round.transport import GrpcTransport
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import ASSIGNMENT

TASKS = 4 * REPORT_TASKS + 1


@pytest.fixture
def world() -> Iterator[World]:
    opened = World(options=OPTIONS)
    yield opened
    opened.coordinator.close()


def running(world: World) -> tuple[Assignment, list[SplitTask]]:
    """A round whose plan is recorded."""
    world.append()
    tierer, message = world.assigned()
    tierer.plan(message)
    splits = [TieringLogSplit(world.table.path, BucketKey(None, bucket), None, 0, 100, 100) for bucket in range(TASKS)]
    contexts = [WriterInitContext(world.table, "uuid", split.bucket, None, message.round_id, "nonce") for split in splits]
    tasks = [SplitTask(None, split, None, context) for split, context in zip(splits, contexts, strict=True)]  # type: ignore[arg-type]  # neither read nor written
    return ASSIGNMENT.from_pb(message, coordinator_epoch=tierer.epoch), tasks


def states(world: World) -> dict[str, int]:
    """How many splits SQL shows in each state."""
    counts: dict[str, int] = {}
    for split in world.coordinator.view().splits():
        counts[split.state] = counts.get(split.state, 0) + 1
    return counts


def test_a_round_of_many_splits_is_shown_whole_and_again_after_a_restart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assignment, tasks = running(world)
    reports_of, requests = Progress.report, list[pb.ReportProgressRequest]()

    def noted(progress: Progress, request: pb.ReportProgressRequest) -> pb.ReportProgressResponse:
        requests.append(request)
        return reports_of(progress, request)

    monkeypatch.setattr(Progress, "report", noted)
    with at_uri(world) as uri:
        transport = GrpcTransport(uri, "tierer-1")
        reports = ProgressReports(partial(transport.report_progress, assignment, Phase.WRITE), 1, tasks)
        meter = RoundMeter([100] * TASKS, lambda: 0, reports.pass_on)
        meter.report()
        wait_for("all splits to be shown", lambda: states(world) == {"QUEUED": TASKS})
        assert len(requests) == 5
        meter.move(SplitPosition(SplitState.RUNNING, 0, "1@worker", 40, 40), 7)
        meter.report()
        wait_for("the one that changed", lambda: states(world) == {"QUEUED": TASKS - 1, "RUNNING": 1})
        assert (len(requests), len(requests[-1].splits)) == (6, 1)
        world.coordinator.progress.splits.forget_ended(lambda table_id: None)  # as a coordinator that started again
        meter.move(SplitPosition(SplitState.DONE, 0, "1@worker", 100, 100), 7)
        meter.report()
        wait_for("all of them again", lambda: states(world) == {"QUEUED": TASKS - 1, "DONE": 1})
        transport.close()


def test_heartbeats_and_a_round_go_on_while_reports_hang(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assignment, tasks = running(world)
    gate, waiting = threading.Event(), list[threading.Thread]()

    def hanging(progress: Progress, request: pb.ReportProgressRequest) -> pb.ReportProgressResponse:
        waiting.append(threading.current_thread())
        gate.wait(60)
        return pb.ReportProgressResponse(send_all=False)

    monkeypatch.setattr(Progress, "report", hanging)
    with at_uri(world) as uri:
        transport = GrpcTransport(uri, "tierer-1")
        try:
            for run in range(20):
                reports = ProgressReports(partial(transport.report_progress, assignment, Phase.WRITE), run + 1, tasks)
                meter = RoundMeter([100] * TASKS, lambda: 0, reports.pass_on)
                for task in range(TASKS):
                    meter.move(SplitPosition(SplitState.DONE), task)
            wait_for("reports that hang", lambda: waiting)
            renewal = pb.LakeTieringHeartbeatRequest(tierer=pb.PbTierer(tierer_id="tierer-2", sequence=1))
            answers = [transport.heartbeat(renewal, 30_000).result() for _ in range(5)]
            assert {answer.coordinator_epoch for answer in answers} == {assignment.coordinator_epoch}
        finally:
            gate.set()
            transport.close()
