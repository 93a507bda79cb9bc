"""A source of one table of a scripted server: the test answers the calls about the table's rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from support.clusters.fluss_log import schema_json
from support.clusters.fluss_owner import settings_of
from support.clusters.scripted_fluss import Answer, ScriptedFluss
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.wire.api import GET_TABLE_INFO, GET_TABLE_SCHEMA, Api
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.model.tables import TableInfo
from tiering.rpc.fluss import fluss_pb2 as pb


@contextmanager
def scripted_source(table: TableInfo, answers: Mapping[Api, Answer]) -> Iterator[FlussSource]:
    """The table has one bucket and one schema."""
    info = pb.GetTableInfoResponse(table_id=table.table_id, schema_id=1, table_json=b"{}", created_time=0, modified_time=0)
    schema = pb.GetTableSchemaResponse(schema_id=1, schema_json=schema_json(table.schema))
    by_key = {GET_TABLE_INFO.key: lambda _: info, GET_TABLE_SCHEMA.key: lambda _: schema}
    by_key |= {api.key: answer for api, answer in answers.items()}
    with ScriptedFluss(answers=by_key, table_id=table.table_id) as server:
        connection = FlussConnection.parse(server.address)
        source = FlussSource(connection, FlussClient(connection), settings_of(server.address))
        try:
            yield source
        finally:
            source.close()
