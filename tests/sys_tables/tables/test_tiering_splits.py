"""`sys.tiering_splits`: what tierers report of running rounds, and nothing of any other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from support.worlds.coordinator_world import HandTierer, World
from sys_tables.declare.scan import ScanRequest
from sys_tables.registry import default_registry
from tiering import errors
from tiering.coordinator.tierers.messages import MAX_SPLITS
from tiering.model.reading.conditions import Filter, Operator
from tiering.model.splits import SplitPosition, SplitProgress, SplitState, TieringLogSplit, TieringSnapshotSplit
from tiering.model.tables import BucketKey, TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import split_to_pb

TABLE = default_registry().table("tiering_splits")
PATH = TablePath("sales", "orders")
RUNNING = SplitPosition(SplitState.RUNNING, 1, "2@worker", 40, 30)


@pytest.fixture
def world() -> Iterator[World]:
    opened = World()
    yield opened
    opened.coordinator.close()


def rows(world: World, **equal: str) -> list[dict[str, Any]]:
    filters = tuple(Filter(name, Operator.EQUAL, (value,)) for name, value in equal.items())
    return [vars(row) for row in TABLE.rows(world.coordinator.view(), ScanRequest(filters=filters))]  # type: ignore[union-attr]


def log_split(bucket: int = 0, position: SplitPosition = RUNNING) -> SplitProgress:
    return SplitProgress(TieringLogSplit(PATH, BucketKey(None, bucket), None, 10, 100, 120), position)


def report(
    tierer: HandTierer, assignment: pb.PbLakeTieringTableInfo, *splits: SplitProgress, splits_told: int = 0, **changes: Any
) -> pb.ReportProgressRequest:
    ref = tierer.ref(assignment)
    for name, value in changes.items():
        setattr(ref, name, value)
    messages = [split_to_pb(number, split) for number, split in enumerate(splits)]
    return pb.ReportProgressRequest(
        round=ref, splits_total=len(splits), records_done=30, records_total=90, run=1, splits=messages, splits_told=splits_told
    )


def test_a_row_has_the_split_and_how_far_the_newest_attempt_is(world: World) -> None:
    assert rows(world) == []
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    key = BucketKey(2**40, 3)
    snapshot = SplitProgress(TieringSnapshotSplit(PATH, key, "2026-11-23", 7, 60, 120), RUNNING)
    answer = world.coordinator.progress.report(report(tierer, assignment, log_split(), snapshot))
    assert not answer.send_all
    path = world.table.path
    assert rows(world) == [
        {
            "round_id": assignment.round_id,
            "split_id": "log-0-10",
            "split_type": "LOG",
            "database_name": path.database_name,
            "table_name": path.table_name,
            "partition_name": None,
            "bucket_id": 0,
            "snapshot_id": None,
            "starting_offset": 10,
            "stopping_offset": 100,
            "current_offset": 40,
            "backlog_offset": 120,
            "fraction_completed": 1 / 3,
            "executor": "2@worker",
            "attempt": 1,
            "state": "RUNNING",
        },
        {
            "round_id": assignment.round_id,
            "split_id": f"snapshot-{2**40}/3-7",
            "split_type": "SNAPSHOT",
            "database_name": path.database_name,
            "table_name": path.table_name,
            "partition_name": "2026-11-23",
            "bucket_id": 3,
            "snapshot_id": 7,
            "starting_offset": None,
            "stopping_offset": 60,
            "current_offset": None,
            "backlog_offset": 120,
            "fraction_completed": 0.5,
            "executor": "2@worker",
            "attempt": 1,
            "state": "RUNNING",
        },
    ]
    assert len(rows(world, table_name=path.table_name)) == 2
    assert rows(world, table_name="another") == []
    assert (len(rows(world, round_id=assignment.round_id)), rows(world, round_id="another")) == (2, [])
    (status,) = world.coordinator.view().table_statuses()
    assert status.fraction_completed == 1 / 3
    world.coordinator.progress.report(report(tierer, assignment, log_split(position=replace(RUNNING, attempt=0, current_offset=99))))
    assert rows(world)[0]["current_offset"] == 40


def test_rounds_that_do_not_own_their_table_say_nothing(world: World) -> None:
    world.append()
    world.due()
    tierer = world.process("a")
    assignment = tierer.get()
    tierer.plan(assignment)
    for changes in ({"tiering_epoch": 99}, {"round_id": "another"}, {"incarnation": "b"}, {"table_id": 999}):
        answer = world.coordinator.progress.report(report(tierer, assignment, log_split(), **changes))
        assert not answer.send_all
    assert (rows(world), len(world.coordinator.progress.splits)) == ([], 0)
    world.coordinator.progress.report(report(tierer, assignment, log_split()))
    assert len(rows(world)) == 1
    tierer.fail(assignment)
    assert rows(world) == []
    world.later(0)
    assert len(world.coordinator.progress.splits) == 0
    world.coordinator.progress.report(report(tierer, assignment, log_split()))
    assert (rows(world), len(world.coordinator.progress.splits)) == ([], 0)


def test_after_a_restart_the_tierer_is_asked_for_all_of_it(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    tierer.plan(assignment)
    world.coordinator.progress.report(report(tierer, assignment, log_split(0), log_split(1)))
    world.restart()
    assert rows(world) == []
    assert world.coordinator.progress.report(report(tierer, assignment, log_split(0), splits_told=2)).send_all
    assert not world.coordinator.progress.report(report(tierer, assignment, log_split(0), log_split(1), splits_told=1)).send_all
    assert len(rows(world)) == 2


def test_reports_that_no_tierer_of_ours_sends_are_refused(world: World) -> None:
    world.append()
    tierer, assignment = world.assigned()
    message = report(tierer, assignment, *[log_split()] * (MAX_SPLITS + 1))
    with pytest.raises(errors.InvalidArgument, match="at most"):
        world.coordinator.progress.report(message)
    message = report(tierer, assignment, log_split())
    message.splits[0].position.state = "LATE"
    with pytest.raises(errors.InvalidArgument, match="'LATE'"):
        world.coordinator.progress.report(message)
    message.splits[0].position.state, message.splits[0].position.executor = "RUNNING", "x\n" * 10_000
    world.coordinator.progress.report(message)
    assert len(rows(world)[0]["executor"]) < 1_000
    older = pb.ReportProgressRequest(round=tierer.ref(assignment), splits_total=2)
    assert not world.coordinator.progress.report(older).send_all
