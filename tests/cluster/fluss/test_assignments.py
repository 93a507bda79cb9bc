"""The tiering heartbeat against a scripted server: what each answer means, and what ends a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.clusters.scripted_fluss import HANG_UP, Answer, ScriptedFluss
from tiering.cluster.fluss.assignments import FlussAssignments
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.wire.api import LAKE_TIERING_HEARTBEAT
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import ClusterUnavailable
from tiering.model.assignments import AssignmentRef, AssignmentReport, Judgement, NewAssignment
from tiering.model.tables import TablePath
from tiering.rpc.fluss import fluss_pb2 as fluss

FIRST, SECOND = AssignmentRef(1, 0, 4), AssignmentRef(2, 0, 7)


@contextmanager
def assignments_of(answer: Answer) -> Iterator[FlussAssignments]:
    with ScriptedFluss(answers={LAKE_TIERING_HEARTBEAT.key: answer}) as server:
        assignments = FlussAssignments(FlussClient(FlussConnection((server.address,))))
        try:
            yield assignments
        finally:
            assignments.close()


@pytest.mark.parametrize(
    ("code", "judgement"),
    [(50, Judgement.GONE), (23, Judgement.GONE), (7, Judgement.GONE), (-1, Judgement.GONE), (10, Judgement.UNDECIDED)],
)
def test_each_refusal_of_a_row_is_judged_and_a_row_that_is_missing_is_not(code: int, judgement: Judgement) -> None:
    def answer(request: fluss.LakeTieringHeartbeatRequest) -> fluss.LakeTieringHeartbeatResponse:
        assert [(row.table_id, row.coordinator_epoch, row.tiering_epoch) for row in request.failed_tables] == [(1, 0, 4), (2, 0, 7)]
        response = fluss.LakeTieringHeartbeatResponse(coordinator_epoch=0)
        response.failed_table_resp.add(table_id=1, error=fluss.ErrorResponse(error_code=code, error_message="no"))
        return response

    with assignments_of(answer) as assignments:
        (judged,) = assignments.heartbeat(assignments.session(), AssignmentReport(failed=[FIRST, SECOND])).failed
    assert (judged.ref, judged.judgement, judged.reason) == (FIRST, judgement, f"no (Fluss error {code})")


def test_an_assigned_table_has_the_epochs_of_the_answer() -> None:
    def answer(request: fluss.LakeTieringHeartbeatRequest) -> fluss.LakeTieringHeartbeatResponse:
        assert request.request_table
        table = fluss.PbLakeTieringTableInfo(
            table_id=2, table_path=fluss.PbTablePath(database_name="sales", table_name="orders"), tiering_epoch=7
        )
        return fluss.LakeTieringHeartbeatResponse(coordinator_epoch=0, tiering_table=table)

    with assignments_of(answer) as assignments:
        assert assignments.heartbeat(assignments.session(), AssignmentReport(wants_table=True)).assigned == NewAssignment(
            SECOND, TablePath("sales", "orders")
        )


@pytest.mark.parametrize("code", [23, 50, 46, 48, 39])
def test_a_refused_heartbeat_is_an_unavailable_cluster_whatever_it_is_refused_with(code: int) -> None:
    """By it the relay ends the session; a Fenced would stop the whole coordinator."""
    refusal = fluss.ErrorResponse(error_code=code, error_message="not you")
    with assignments_of(lambda _: refusal) as assignments, pytest.raises(ClusterUnavailable, match="not you"):
        assignments.heartbeat(assignments.session(), AssignmentReport(renewed=[FIRST]))


def test_a_connection_that_ends_ends_the_session_and_nothing_is_sent_in_its_name_any_more() -> None:
    reports = []

    def answer(request: fluss.LakeTieringHeartbeatRequest) -> fluss.LakeTieringHeartbeatResponse | bytes:
        reports.append(request)
        return HANG_UP if len(reports) == 1 else fluss.LakeTieringHeartbeatResponse(coordinator_epoch=0)

    with assignments_of(answer) as assignments:
        first = assignments.session()
        assert assignments.session() == first
        for _ in range(2):
            with pytest.raises(ClusterUnavailable):
                assignments.heartbeat(first, AssignmentReport(finished=[FIRST]))
        assert len(reports) == 1
        second = assignments.session()
        assert second != first
        with pytest.raises(ClusterUnavailable, match="has ended"):
            assignments.heartbeat(first, AssignmentReport(finished=[FIRST]))
        assert len(reports) == 1
        assignments.heartbeat(second, AssignmentReport())
        assert len(reports) == 2
