"""A column of `sys.lake_tiering_status` is a field of `TableStatus`, a field of the proto and a line that computes it: the three agree."""

from __future__ import annotations

import typing
from dataclasses import fields
from datetime import datetime

import pyarrow as pa
import pytest
from google.protobuf.descriptor import FieldDescriptor

from sys_tables.registry import default_registry
from tiering.coordinator.status import cells
from tiering.model.declare import comment_of, schema_of
from tiering.model.states import LASTING, TableState
from tiering.model.status import TableStatus
from tiering.rpc.v1.status_pb2 import ListTieringStatusesResponse, PbTableTieringStatus

PROTO = PbTableTieringStatus.DESCRIPTOR
PROTO_TYPES = {
    str: {FieldDescriptor.TYPE_STRING},
    int: {FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_INT32},
    float: {FieldDescriptor.TYPE_DOUBLE},
    bool: {FieldDescriptor.TYPE_BOOL},
    datetime: {FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_INT64},  # a Timestamp, or milliseconds
}
CARRIED_ELSEWHERE = ("database_name", "table_name", "observed_time")
"""In the proto these are the table's path and a field of the response."""


def columns() -> dict[str, tuple[type, bool]]:
    """Type and nullability of each field of the status."""
    hints = typing.get_type_hints(TableStatus)
    split = {name: [kind for kind in typing.get_args(hint) or (hint,) if kind is not type(None)] for name, hint in hints.items()}
    return {name: (kinds[0], type(None) in typing.get_args(hints[name])) for name, kinds in split.items()}


def test_sql_shows_exactly_the_fields_of_the_status_in_order() -> None:
    table = next(table for table in default_registry().tables if table.name == "lake_tiering_status")
    assert table.schema == schema_of(TableStatus)
    assert table.schema.names == [field.name for field in fields(TableStatus)]
    assert table.schema.field("consecutive_failures").type == pa.int32()


def test_each_field_has_one_line_that_computes_it() -> None:
    computed = [*cells.STORED, *cells.STEADY, *cells.OBSERVED, *cells.CONSTANT, cells.PROMISE, cells.REASON, cells.NEXT_ACTION]
    assert sorted(computed) == sorted(columns())


def test_the_proto_has_each_field_under_its_name_in_order_and_no_other() -> None:
    assert [field.name for field in PROTO.fields] == ["table_path", *(name for name in columns() if name not in CARRIED_ELSEWHERE)]
    assert {"tiering_statuses", "observed_time"} <= {field.name for field in ListTieringStatusesResponse.DESCRIPTOR.fields}


@pytest.mark.parametrize("name", sorted(columns().keys() - set(CARRIED_ELSEWHERE)))
def test_the_proto_has_the_type_of_each_field(name: str) -> None:
    kind, nullable = columns()[name]
    field = PROTO.fields_by_name[name]
    assert field.type in PROTO_TYPES[kind]
    assert field.has_presence or not nullable, "absence must be told from a zero"


def test_the_comment_names_the_states_that_last() -> None:
    comment = comment_of(schema_of(TableStatus).field("status"))
    assert all(state.value in comment for state in LASTING)
    assert not any(f"{state.value}" in comment.replace("Tiering", "") for state in TableState if state not in LASTING)
