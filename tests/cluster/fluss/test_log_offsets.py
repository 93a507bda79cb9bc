"""How far the logs reach while partitions vanish and servers do not know yet what they have."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from support.clusters.fluss_tables import FlussTables
from support.clusters.memory_cluster import log_table
from support.clusters.scripted_fluss import Answer, ScriptedFluss
from support.running.processes import wait_for
from tiering.cluster.fluss.log_offsets import FlussLogOffsets
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.wire.api import GET_TABLE_INFO, LIST_OFFSETS
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import PARTITION_NOT_EXISTS, TABLE_NOT_EXIST
from tiering.errors import ClusterUnavailable
from tiering.model.tables import BucketKey, Partition
from tiering.rpc.fluss import fluss_pb2 as pb

TABLE = log_table(buckets=1)


def test_a_partition_that_vanishes_meanwhile_is_left_out(tables: FlussTables) -> None:
    schema = pa.schema([("id", pa.int64()), ("region", pa.string())])
    table = replace(tables.create("vanishing", schema, partition_keys=["region"]), partition_keys=("region",))
    partitions = [Partition(tables.add_partition(table, {"region": name}), name) for name in ("stays", "goes")]
    stays, goes = (BucketKey(partition.partition_id, 0) for partition in partitions)
    client = FlussClient(tables.connection)
    offsets = FlussLogOffsets(client)

    def are_known(buckets: set[BucketKey]) -> bool:
        try:
            return offsets.of([(table, partitions)])[table.table_id].keys() == buckets
        except ClusterUnavailable:  # no leader yet, or servers that do not agree yet
            return False

    wait_for("both partitions have leaders, which are remembered from then on", lambda: are_known({stays, goes}))
    tables.drop_partition(table, {"region": "goes"})
    wait_for("the servers agree that one is gone", lambda: are_known({stays}))
    offsets.close()
    client.close()
    tables.drop(table)


@pytest.mark.parametrize("code", [TABLE_NOT_EXIST, PARTITION_NOT_EXISTS])
def test_a_bucket_that_a_server_does_not_know_for_a_moment_is_not_taken_for_gone(code: int) -> None:
    """A tablet server that has just started says so, while the cluster's coordinator has the table."""

    def list_offsets(_: pb.ListOffsetsRequest) -> pb.ListOffsetsResponse:
        answer = pb.ListOffsetsResponse()
        answer.buckets_resp.add(bucket_id=0, error_code=code, error_message="never heard of it")
        return answer

    info = pb.GetTableInfoResponse(table_id=TABLE.table_id, schema_id=1, table_json=b"{}", created_time=0, modified_time=0)
    answers: dict[int, Answer] = {LIST_OFFSETS.key: list_offsets, GET_TABLE_INFO.key: lambda _: info}
    with ScriptedFluss(answers=answers, table_id=TABLE.table_id) as server:
        client = FlussClient(FlussConnection.parse(server.address))
        offsets = FlussLogOffsets(client)
        with pytest.raises(ClusterUnavailable, match="never heard of it"):
            offsets.of([(TABLE, ())])
        offsets.close()
        client.close()
