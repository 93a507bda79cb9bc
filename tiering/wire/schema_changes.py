"""Changes of a table's columns as messages, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from tiering.errors import InvalidArgument
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
from tiering.rpc.v1 import common_pb2 as pb
from tiering.wire.codec import Codec

_POSITION = Codec(After, pb.PbAfter)
_TYPE = Codec(ChangeType, pb.PbChangeType, elsewhere=("new_type",), beside=("new_type",))
_OTHERS: dict[str, tuple[type, Codec[Any, Any]]] = {
    "drop": (DropColumn, Codec(DropColumn, pb.PbDropColumn)),
    "rename": (RenameColumn, Codec(RenameColumn, pb.PbRenameColumn)),
    "change_comment": (ChangeComment, Codec(ChangeComment, pb.PbChangeComment)),
    "drop_not_null": (DropNotNull, Codec(DropNotNull, pb.PbDropNotNull)),
    "move": (MoveColumn, Codec(MoveColumn, pb.PbMoveColumn)),
}
"""The classes and codecs by their name in `PbSchemaChange`, except for those that contain Arrow types."""


def changes_to_pb(changes: Iterable[SchemaChange]) -> list[pb.PbSchemaChange]:
    """Returns the messages of changes."""
    return [_to_pb(change) for change in changes]


def changes_from_pb(messages: Iterable[pb.PbSchemaChange], read_schema: Callable[[bytes], pa.Schema]) -> Sequence[SchemaChange]:
    """Returns the changes of messages. Raises InvalidArgument for a change that this version does not know.

    `read_schema` is `arrow_ipc.read_schema`, which checks the bytes and raises InvalidData.
    """
    return [_from_pb(message, read_schema) for message in messages]


def _to_pb(change: SchemaChange) -> pb.PbSchemaChange:
    if isinstance(change, AddColumn):
        position = None if change.position is None else _POSITION.to_pb(change.position)
        return pb.PbSchemaChange(add=pb.PbAddColumn(field=_field_bytes(change.field), parent=change.parent, position=position))
    if isinstance(change, ChangeType):
        return pb.PbSchemaChange(change_type=_TYPE.to_pb(change, new_type=_field_bytes(pa.field("type", change.new_type))))
    message = pb.PbSchemaChange()
    for name, (kind, codec) in _OTHERS.items():
        if isinstance(change, kind):
            getattr(message, name).CopyFrom(codec.to_pb(change))
            getattr(message, name).SetInParent()
    return message


def _from_pb(message: pb.PbSchemaChange, read_schema: Callable[[bytes], pa.Schema]) -> SchemaChange:
    kind = message.WhichOneof("change")
    if kind is None:
        raise InvalidArgument(
            "the service does not know this change of columns", hint="Upgrade the service, or send one of the changes of common.proto."
        )
    if kind == "add":
        position = _POSITION.from_pb(message.add.position) if message.add.HasField("position") else None
        return AddColumn(_field(message.add.field, read_schema), tuple(message.add.parent), position)
    if kind == "change_type":
        return _TYPE.from_pb(message.change_type, new_type=_field(message.change_type.new_type, read_schema).type)
    change: SchemaChange = _OTHERS[kind][1].from_pb(getattr(message, kind))
    return change


def _field_bytes(field: pa.Field[Any]) -> bytes:
    return pa.schema([field]).serialize().to_pybytes()


def _field(data: bytes, read_schema: Callable[[bytes], pa.Schema]) -> pa.Field[Any]:
    schema = read_schema(data)
    if len(schema) != 1:
        raise InvalidArgument(f"a change needs exactly one field, but its Arrow schema has {len(schema)}")
    return schema.field(0)
