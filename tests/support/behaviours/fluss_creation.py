"""CreateTable of Fluss 0.9.1 as a client sends it, for tables that pyfluss cannot describe: those with functions of aggregation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from support.clusters.fluss_log import type_json
from tiering.cluster.fluss.table_options import is_of_fluss
from tiering.cluster.fluss.wire.api import Api
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath

_CREATE_TABLE_KEY = 1005
_FILE = "fluss_creation.proto"
_STRING, _MESSAGE, _BYTES, _BOOLEAN = 9, 11, 12, 8


def create_table(
    client: FlussClient, path: TablePath, spec: TableSpec, functions: Mapping[str, str], auto_increment: Sequence[str]
) -> None:
    """Creates a table. `functions`: of aggregation, by column. `auto_increment`: columns that the servers number. Returns before the
    buckets have leaders.
    """
    create = _create_table()
    request = create.request(
        table_path={"database_name": path.database_name, "table_name": path.table_name},
        table_json=json.dumps(_described(spec, functions, auto_increment)).encode(),
        ignore_if_exists=False,
    )
    client.call_over(client.coordinator_connection(), create, request)


def _described(spec: TableSpec, functions: Mapping[str, str], auto_increment: Sequence[str]) -> Mapping[str, Any]:
    columns = [_column(number, field, functions.get(field.name)) for number, field in enumerate(spec.schema)]
    schema = {"version": 1, "columns": columns, "primary_key": [*spec.primary_key], "highest_field_id": len(columns) - 1}
    return {
        "version": 1,
        "schema": {**schema, "auto_increment_column": [*auto_increment]} if auto_increment else schema,
        "partition_key": [*spec.partition_keys],
        "bucket_key": [*(spec.bucket_keys or spec.primary_key)],
        "bucket_count": spec.bucket_count,
        "properties": {name: value for name, value in spec.properties.items() if is_of_fluss(name)},
        "custom_properties": {name: value for name, value in spec.properties.items() if not is_of_fluss(name)},
    }


def _column(number: int, field: pa.Field[Any], function: str | None) -> Mapping[str, Any]:
    column = {"name": field.name, "data_type": type_json(field.type, field.nullable), "id": number}
    return column if function is None else {**column, "agg_function": {"type": function}}


def _create_table() -> Api:
    file = descriptor_pb2.FileDescriptorProto(name=_FILE, syntax="proto2")
    path, request = file.message_type.add(name="Path"), file.message_type.add(name="CreateTableRequest")
    file.message_type.add(name="CreateTableResponse")
    for number, name in enumerate(("database_name", "table_name"), 1):
        path.field.add(name=name, number=number, type=_STRING, label=2)
    request.field.add(name="table_path", number=1, type=_MESSAGE, type_name=".Path", label=2)
    request.field.add(name="table_json", number=2, type=_BYTES, label=2)
    request.field.add(name="ignore_if_exists", number=3, type=_BOOLEAN, label=2)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    messages = message_factory.GetMessageClassesForFiles([_FILE], pool)
    return Api(_CREATE_TABLE_KEY, messages["CreateTableRequest"], messages["CreateTableResponse"], repeatable=False)
