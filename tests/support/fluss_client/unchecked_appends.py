"""Appends rows to a log of a real Fluss without a check of their values.

pyfluss refuses a value that the schema does not allow. The servers do not decode rows.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from support.clusters.fluss_log import record_batch
from support.clusters.fluss_tables import FlussTables
from tiering.cluster.fluss.wire.api import Api
from tiering.cluster.fluss.wire.connection import ConnectionPool
from tiering.model.tables import BucketKey, TableInfo

_PRODUCE_LOG = 1014
"""Key of the call. Its fields have the numbers of Fluss's classes `ProduceLogRequest` and `ProduceLogResponse`."""
_ALL_REPLICAS = -1
_INT32, _INT64, _STRING, _BYTES, _MESSAGE = 5, 3, 9, 12, 11
"""Types of fields, as `FieldDescriptorProto` numbers them."""
_FIELDS = {
    "Request": {"acks": (1, _INT32), "table_id": (2, _INT64), "timeout_ms": (3, _INT32), "buckets_req": (4, _MESSAGE, "Records")},
    "Records": {"partition_id": (1, _INT64), "bucket_id": (2, _INT32), "records": (3, _BYTES)},
    "Response": {"buckets_resp": (1, _MESSAGE, "Result")},
    "Result": {"bucket_id": (2, _INT32), "error_code": (3, _INT32), "error_message": (4, _STRING), "base_offset": (5, _INT64)},
}


def append_unchecked(tables: FlussTables, table: TableInfo, rows: pa.RecordBatch, schema_id: int) -> int:
    """Appends the rows to bucket 0 of a log table and returns the offset of the first."""
    messages = _messages()
    server = tables.client.leader_of(table.path, table.table_id, BucketKey(None, 0))
    request = messages["Request"](acks=_ALL_REPLICAS, table_id=table.table_id, timeout_ms=10_000)
    request.buckets_req.add(bucket_id=0, records=record_batch(rows, 0, schema_id=schema_id, writer=(-1, -1)))
    pool = ConnectionPool(tables.connection)
    try:
        api = Api(_PRODUCE_LOG, messages["Request"], messages["Response"], repeatable=False)
        [result] = pool.connection(server).call(api, request).buckets_resp
    finally:
        pool.close()
    assert not result.error_code, result.error_message
    return int(result.base_offset)


def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="lakeward_tests_produce.proto", package="lakeward.tests", syntax="proto2")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, *message_name) in fields.items():
            is_list = bool(message_name)
            message.field.add(
                name=field,
                number=number,
                type=kind,
                label=3 if is_list else 1,
                type_name=f".lakeward.tests.{message_name[0]}" if is_list else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}")) for name in _FIELDS}
