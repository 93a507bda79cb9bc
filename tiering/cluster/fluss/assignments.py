"""`TableAssignments` through Fluss's LakeTieringHeartbeat.

A session is one connection to Fluss's coordinator, of a client that is used only for heartbeats. The coordinator's epochs start at 0 again
with each start of its process, and answers do not distinguish one process from the next. But no connection outlives its process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from tiering.clock import Ids, RandomIds
from tiering.cluster.fluss.wire.api import LAKE_TIERING_HEARTBEAT
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.connection import ServerConnection
from tiering.cluster.fluss.wire.errors import FENCED_TIERING_EPOCH, INVALID_COORDINATOR, TABLE_NOT_EXIST, UNKNOWN_SERVER_ERROR
from tiering.errors import ClusterUnavailable, LakewardError
from tiering.model.assignments import (
    AssignmentAnswer,
    AssignmentRef,
    AssignmentReport,
    JudgedAssignment,
    Judgement,
    LakeTotals,
    NewAssignment,
)
from tiering.model.tables import TablePath
from tiering.rpc.fluss import fluss_pb2 as fluss

GONE = frozenset({FENCED_TIERING_EPOCH, INVALID_COORDINATOR, TABLE_NOT_EXIST, UNKNOWN_SERVER_ERROR})
"""Error codes for: another tiering epoch; another coordinator; a table that was dropped, or that a just started coordinator does not know
yet (H4); a table that is not in Tiering.
"""


class FlussAssignments:
    """Implements `TableAssignments`. It owns its client and closes it."""

    def __init__(self, client: FlussClient, ids: Ids | None = None) -> None:
        self._client = client
        self._ids = ids or RandomIds()
        self._connection: ServerConnection | None = None
        self._session = ""

    def session(self) -> str:
        """Returns the id of the present session, which changes with each new connection."""
        with _answered_or_unavailable():
            connection = self._client.coordinator_connection()
        if connection is not self._connection:
            self._connection, self._session = connection, self._ids.new_id()
        return self._session

    def heartbeat(self, session: str, report: AssignmentReport) -> AssignmentAnswer:
        connection = self._connection
        if connection is None or session != self._session or not connection.is_open:
            raise ClusterUnavailable("the connection to Fluss's coordinator, over which tables were assigned, has ended")
        with _answered_or_unavailable():
            answer = self._client.call_over(connection, LAKE_TIERING_HEARTBEAT, request_of(report))
        return answer_of(answer, report)

    def close(self) -> None:
        """Ends the session."""
        self._client.close()


@contextmanager
def _answered_or_unavailable() -> Iterator[None]:
    """Converts errors that refuse a heartbeat as a whole to ClusterUnavailable.

    An example is a revoked login: nothing is renewed in any case, so another service soon gets the tables. A refusal because of epochs is
    about Fluss's epochs, and must not become Lakeward's Fenced.
    """
    try:
        yield
    except ClusterUnavailable:
        raise
    except LakewardError as refusal:
        raise ClusterUnavailable(f"Fluss's coordinator refuses heartbeats: {refusal.message}", hint=refusal.hint) from refusal


def request_of(report: AssignmentReport) -> fluss.LakeTieringHeartbeatRequest:
    """Returns the heartbeat as a message of Fluss."""
    return fluss.LakeTieringHeartbeatRequest(
        tiering_tables=_refs_to_pb(report.renewed),
        finished_tables=_refs_to_pb(report.finished, report.lake_totals),
        failed_tables=_refs_to_pb(report.failed),
        request_table=report.wants_table,
    )


def answer_of(answer: fluss.LakeTieringHeartbeatResponse, report: AssignmentReport) -> AssignmentAnswer:
    """Returns Fluss's answer to the report. The entries of the answer identify tables only by id."""
    assigned = None
    if answer.HasField("tiering_table"):
        table = answer.tiering_table
        path = TablePath(table.table_path.database_name, table.table_path.table_name)
        assigned = NewAssignment(AssignmentRef(table.table_id, answer.coordinator_epoch, table.tiering_epoch), path)
    return AssignmentAnswer(
        renewed=_judged(report.renewed, answer.tiering_table_resp),
        finished=_judged(report.finished, answer.finished_table_resp),
        failed=_judged(report.failed, answer.failed_table_resp),
        assigned=assigned,
    )


def _refs_to_pb(
    refs: Iterable[AssignmentRef], totals: Mapping[AssignmentRef, LakeTotals] = MappingProxyType({})
) -> list[fluss.PbHeartbeatReqForTable]:
    return [
        fluss.PbHeartbeatReqForTable(
            table_id=ref.table_id,
            coordinator_epoch=ref.coordinator_epoch,
            tiering_epoch=ref.tiering_epoch,
            lake_tiering_stats=_totals_to_pb(totals.get(ref)),
        )
        for ref in refs
    ]


def _totals_to_pb(totals: LakeTotals | None) -> fluss.PbLakeTieringStats | None:
    """Returns the totals as Fluss 1.0 reads them, for its metrics `fileSize` and `recordCount`. An older server skips the field."""
    if totals is None or totals == LakeTotals(None, None):
        return None
    return fluss.PbLakeTieringStats(file_size=totals.size_bytes, record_count=totals.records)


def _judged(refs: Sequence[AssignmentRef], rows: Iterable[fluss.PbHeartbeatRespForTable]) -> list[JudgedAssignment]:
    by_table = {row.table_id: row for row in rows}
    return [_judgement(ref, by_table[ref.table_id]) for ref in refs if ref.table_id in by_table]


def _judgement(ref: AssignmentRef, row: fluss.PbHeartbeatRespForTable) -> JudgedAssignment:
    if not row.HasField("error"):
        return JudgedAssignment(ref, Judgement.ACCEPTED)
    judgement = Judgement.GONE if row.error.error_code in GONE else Judgement.UNDECIDED
    return JudgedAssignment(ref, judgement, f"{row.error.error_message} (Fluss error {row.error.error_code})")
