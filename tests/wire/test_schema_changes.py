"""Changes of columns are the same after a message, with comments, types and positions; what cannot be read is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tiering.errors import InvalidArgument, InvalidData
from tiering.library_guards.arrow_ipc import read_schema
from tiering.model.schema.changes import (
    AddColumn,
    After,
    ChangeComment,
    ChangeType,
    DropColumn,
    DropNotNull,
    MoveColumn,
    RenameColumn,
    SchemaChange,
)
from tiering.model.schema.field_ids import comment
from tiering.rpc.v1 import common_pb2 as pb
from tiering.wire.schema_changes import changes_from_pb, changes_to_pb

CHANGES: list[SchemaChange] = [
    AddColumn(pa.field("note", pa.list_(pa.field("element", pa.decimal128(9, 2)))), position=After(None)),
    AddColumn(pa.field("zip", pa.string()), ("address",), After("street")),
    AddColumn(pa.field("at", pa.timestamp("us", "UTC"), nullable=False)),
    DropColumn(("address", "floor")),
    RenameColumn(("qty",), "📦 order"),
    ChangeType(("lines", "element", "price"), pa.decimal128(20, 2)),
    ChangeComment(("id",), ""),
    ChangeComment(("id",), None),
    DropNotNull(("qty",)),
    MoveColumn(("qty",), After("id")),
    MoveColumn(("qty",), After(None)),
]


def test_every_change_is_the_same_after_a_message() -> None:
    messages = [pb.PbSchemaChange.FromString(message.SerializeToString()) for message in changes_to_pb(CHANGES)]
    assert changes_from_pb(messages, read_schema) == CHANGES


def test_a_comment_travels_with_its_field() -> None:
    field = pa.field("note", pa.struct([pa.field("inner", pa.int8(), metadata={"comment": "in"})]), metadata={"comment": "out"})
    (change,) = changes_from_pb(changes_to_pb([AddColumn(field)]), read_schema)
    assert isinstance(change, AddColumn)
    assert (comment(change.field), comment(change.field.type.field(0))) == ("out", "in")


@pytest.mark.parametrize(
    ("message", "error", "reason"),
    [
        (pb.PbSchemaChange(), InvalidArgument, "does not know this change"),
        (pb.PbSchemaChange(add=pb.PbAddColumn(field=b"no arrow")), InvalidData, "not an Arrow IPC message"),
        (pb.PbSchemaChange(change_type=pb.PbChangeType(new_type=pa.schema([]).serialize().to_pybytes())), InvalidArgument, "has 0"),
    ],
)
def test_a_message_that_is_no_change_is_refused(message: pb.PbSchemaChange, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        changes_from_pb([message], read_schema)
