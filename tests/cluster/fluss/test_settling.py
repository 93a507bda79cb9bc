"""A log whose leader has just moved: the new one says for a moment that it starts at its local segments, which no server does at will."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clusters.fluss_owner import settings_of
from support.clusters.memory_cluster import log_table
from support.clusters.scripted_fluss import Answer, ScriptedFluss
from tiering.cluster.fluss import source as module
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.wire.api import METADATA
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import LogTruncated
from tiering.model.tables import BucketKey, BucketOffsets
from tiering.planning.check_log import check_reachable
from tiering.rpc.fluss import fluss_pb2 as pb

TABLE = log_table(buckets=1)
B0 = BucketKey(None, 0)
GET_TABLE_INFO, FETCH_LOG, LIST_OFFSETS = 1007, 1015, 1021
TABLE_INFO = pb.GetTableInfoResponse(table_id=TABLE.table_id, schema_id=1, table_json=b"{}", created_time=0, modified_time=0)
STARTS = [500, 0]
"""The log starts that the leader returns, one after the other."""


@pytest.fixture
def server() -> Iterator[ScriptedFluss]:
    starts = iter(STARTS)

    def list_offsets(request: pb.ListOffsetsRequest) -> pb.ListOffsetsResponse:
        answer = pb.ListOffsetsResponse()
        answer.buckets_resp.add(bucket_id=0, offset=next(starts) if request.offset_type == 0 else 900)
        return answer

    answers: dict[int, Answer] = {LIST_OFFSETS: list_offsets}
    answers |= {GET_TABLE_INFO: lambda request: TABLE_INFO, FETCH_LOG: lambda request: pb.FetchLogResponse()}
    with ScriptedFluss(answers=answers, table_id=TABLE.table_id) as server:
        yield server


def test_a_log_is_read_again_at_its_new_leader(server: ScriptedFluss, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    connection = FlussConnection.parse(server.address)
    source = FlussSource(connection, FlussClient(connection), settings_of(server.address))
    try:
        looks = [source.offsets(TABLE)]
        questions = server.received.count(METADATA.key)
        source.settle(TABLE)
        looks.append(source.offsets(TABLE))
    finally:
        source.close()
    assert looks == [{B0: BucketOffsets(start, 900)} for start in STARTS]
    assert server.received.count(METADATA.key) == questions + 1
    with pytest.raises(LogTruncated):
        check_reachable(TABLE, B0, 400, looks[0][B0])
    check_reachable(TABLE, B0, 400, looks[1][B0])
