"""The coordinator's log of a round: each line says which round, table and epoch it is about."""

from __future__ import annotations

import grpc
from structlog.contextvars import merge_contextvars
from structlog.testing import capture_logs

from support.services.served import Served, error_of, over_grpc
from support.worlds.coordinator_world import World
from tiering.coordinator.server.event_log import log_events
from tiering.rpc.v1 import coordinator_pb2 as pb


def test_every_line_of_a_round_names_round_table_and_epoch() -> None:
    world = World()
    world.coordinator.table_records.events_stored = log_events
    world.append()
    with capture_logs(processors=[merge_contextvars]) as lines:
        tierer, assignment = world.assigned()
        tierer.run(assignment)
        world.append()
        again, second = world.assigned()
        again.fail(second, error_message="disk full")
    first = [line for line in lines if line.get("round_id") == assignment.round_id]
    assert [line["event_type"] for line in first][:3] == ["TABLE_PENDING", "TABLE_TIERING", "BACKLOG_BEGIN"]
    assert {(line["table"], line["tiering_epoch"], line["log_level"]) for line in first} == {("sales.orders", 1, "debug")}
    [broken] = [line for line in lines if line["log_level"] == "error"]
    assert (broken["round_id"], broken["table"], broken["tiering_epoch"]) == (second.round_id, "sales.orders", 2)
    assert "disk full" in broken["event"]


def test_the_end_of_a_refused_call_names_the_round_it_was_about() -> None:
    async def test(served: Served) -> None:
        round_ = pb.PbRound(table_id=served.world.table.table_id, tiering_epoch=9, round_id="r-old", tierer_id="t")
        with capture_logs(processors=[merge_contextvars]) as lines:
            code, _ = await error_of(served.tierers.RecordPlan(pb.RecordPlanRequest(round=round_)))
            await served.page()
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        [refused] = [line for line in lines if line["event"] == "a call was refused"]
        assert (refused["round_id"], refused["table"], refused["tiering_epoch"]) == ("r-old", "sales.orders", 9)

    over_grpc(test)
