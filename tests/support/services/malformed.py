"""Requests that no honest client sends, built from the services' own descriptors; the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from pyarrow import ipc

from sys_tables.registry import default_registry
from sys_tables.rpc.v1 import sys_catalog_pb2
from tiering.model.sql_types import spark_type
from tiering.rpc.v1 import common_pb2, control_pb2, coordinator_pb2, embedded_pb2, reads_pb2, status_pb2

FILES = (sys_catalog_pb2, control_pb2, reads_pb2, coordinator_pb2, embedded_pb2, status_pb2)
DATABASE, LOG_TABLE, PRIMARY_KEY_TABLE = "fuzz", "orders", "primary_keys"
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string()), pa.field("tags", pa.list_(pa.string()))])
DEEPEST = 6
WIDEST = 2_000

INTEGERS = (0, 1, 2, -1, 5, 1_000, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 253_402_300_800)
UNSIGNED = (0, 1, 2**32 - 1, 2**64 - 1)
REALS = (0.0, -0.0, 1e308, 5e-324, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", "sys", DATABASE, LOG_TABLE, PRIMARY_KEY_TABLE, f"{DATABASE}.{LOG_TABLE}", "lake_tiering_status", "tables", "status", "id", "text",
    "x" * 300,
    "x" * 70_000, "\x00", "\x1b[2J\u202e", "é" * 100, "\U0001f600", "..", "../../etc/passwd", "/", "`", "``.`", "a.b.c.d",
    "'; DROP TABLE x; --",
    "%", "%" * 500, "(a+)+$", "null", "-1",
    "9" * 5_000, "[" * 2_000, "W1tb" * 900, "1:\u0663",
    "\ufffd", "__x", "true", "table.datalake.enabled",
    "table.datalake.freshness", "table.log.ttl", "7 d", "1" * 30 + " s", "Failed",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One request to one method; `kind` says how it is malformed."""

    method: MethodDescriptor
    body: bytes
    kind: str

    @property
    def path(self) -> str:
        return f"/{self.method.containing_service.full_name}/{self.method.name}"

    @property
    def streams(self) -> bool:
        return bool(self.method.server_streaming)


def methods() -> list[MethodDescriptor]:
    """The methods of every service there is."""
    return [method for file in FILES for service in file.DESCRIPTOR.services_by_name.values() for method in service.methods]


def cases(seed: int, count: int) -> Iterator[Case]:
    """Some of every kind for every method, then those that aim at statements, CALLs and rows."""
    chance = random.Random(seed)
    all_methods = methods()
    for number in range(count):
        match number % 4:
            case 0 | 1:
                method = all_methods[number // 2 % len(all_methods)]
                request = extreme(chance, method.input_type)
                yield Case(
                    method, _spoiled(chance, request.SerializeToString()) if number % 8 == 1 else request.SerializeToString(), "extreme"
                )
            case 2:
                yield _aimed(chance, all_methods)
            case _:
                yield _rows(chance, all_methods)


def extreme(chance: random.Random, kind: Descriptor, depth: int = 0) -> Message:
    """A message whose fields are as far out as they go."""
    message: Message = GetMessageClass(kind)()
    for field in kind.fields:
        if depth > DEEPEST or chance.random() < 0.25:
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(chance, message, field)
        elif field.is_repeated:
            _fill_list(chance, message, field, depth)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(extreme(chance, field.message_type, depth + 1))
        else:
            setattr(message, field.name, _scalar(chance, field))
    return message


def _fill_map(chance: random.Random, message: Message, field: FieldDescriptor) -> None:
    key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
    for _ in range(chance.choice([0, 1, 3, 200])):
        getattr(message, field.name)[_scalar(chance, key)] = _scalar(chance, value)


def _fill_list(chance: random.Random, message: Message, field: FieldDescriptor, depth: int) -> None:
    items = getattr(message, field.name)
    if field.message_type is None:
        some = [_scalar(chance, field) for _ in range(chance.choice([0, 1, 3]))]
        items.extend(some * (WIDEST if chance.random() < 0.1 and sum(map(_size, some)) < 1_000 else 1))
        return
    for _ in range(chance.choice([0, 1, 2])):
        item = extreme(chance, field.message_type, depth + 1)
        items.extend([item] * (WIDEST if depth == 0 and item.ByteSize() < 200 and chance.random() < 0.2 else 1))


def _size(value: object) -> int:
    return len(value) if isinstance(value, str | bytes) else 8


def _scalar(chance: random.Random, field: FieldDescriptor) -> Any:
    kinds = FieldDescriptor
    match field.cpp_type:
        case kinds.CPPTYPE_STRING:
            return chance.choice(TEXTS) if field.type == kinds.TYPE_STRING else chance.choice([b"", b"\xff" * 100, arrow(chance)])
        case kinds.CPPTYPE_BOOL:
            return chance.random() < 0.5
        case kinds.CPPTYPE_DOUBLE | kinds.CPPTYPE_FLOAT:
            return chance.choice(REALS)
        case kinds.CPPTYPE_ENUM:
            return chance.choice([*field.enum_type.values_by_number, 999, -1])
        case kinds.CPPTYPE_UINT32:
            return chance.choice([number for number in UNSIGNED if number < 2**32])
        case kinds.CPPTYPE_UINT64:
            return chance.choice(UNSIGNED)
        case kinds.CPPTYPE_INT32:
            return chance.choice([number for number in INTEGERS if -(2**31) <= number < 2**31])
        case _:
            return chance.choice(INTEGERS)


def _spoiled(chance: random.Random, body: bytes) -> bytes:
    """Returns bytes that are no message any more, or a message with unknown fields."""
    match chance.randrange(6):
        case 0:
            return body[: chance.randrange(len(body) + 1)]
        case 1:
            return body + b"\xfa\x7f\x03abc" + b"\xf8\xff\xff\xff\x0f\x01"
        case 2:
            return b"\x0a\x02\xc3\x28" + body  # text that is no UTF-8
        case 3:
            return b"\x0b" * 5_000  # groups within groups
        case 4:
            return b"\x0a\xff\xff\xff\xff\x07" + body  # a field of 2 GB
        case _:
            return flipped(chance, body)


def flipped(chance: random.Random, body: bytes, flips: int = 3) -> bytes:
    """With some bits turned."""
    changed = bytearray(body)
    for _ in range(flips if changed else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def arrow(chance: random.Random) -> bytes:
    """Rows or a schema, as they should be or nearly."""
    rows = [{"id": number, "text": str(number), "tags": ["a", None]} for number in range(chance.choice([0, 1, 50]))]
    batch = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch)
    whole = chance.choice([sink.getvalue().to_pybytes(), SCHEMA.serialize().to_pybytes()])
    return whole if chance.random() < 0.2 else flipped(chance, whole, chance.choice([1, 2, 30]))


def _rows(chance: random.Random, all_methods: list[MethodDescriptor]) -> Case:
    """Arrow with turned bits where a table takes it."""
    where, table = chance.choice(
        [
            ("Append", LOG_TABLE),
            ("Upsert", PRIMARY_KEY_TABLE),
            ("Delete", PRIMARY_KEY_TABLE),
            ("CreateTable", "new"),
            ("AlterTable", LOG_TABLE),
        ]
    )
    method = _named(all_methods, where)
    request: Any = GetMessageClass(method.input_type)()
    request.table_path.database_name, request.table_path.table_name = DATABASE, table
    if where in ("Append", "Upsert", "Delete"):
        request.writer_id, request.sequence = f"w{chance.random()}", 1
    field = {"Delete": "keys", "CreateTable": "schema", "AlterTable": "add_columns"}.get(where, "rows")
    if where == "AlterTable" and chance.random() < 0.5:
        change = request.changes.add()
        change.add.field = arrow(chance) if chance.random() < 0.5 else b""
        if chance.random() < 0.5:
            change.change_type.path.extend(chance.choice([[], ["id"], ["id", "element"]]))
            change.change_type.new_type = arrow(chance)
    else:
        setattr(request, field, arrow(chance))
    if where == "CreateTable":
        request.table_path.table_name = f"new{chance.randrange(5)}"
        request.bucket_count = chance.choice([1, 3, 0, -1, 2**31 - 1])
        request.primary_key.extend(chance.choice([[], ["id"], ["nobody"]]))
    return Case(method, request.SerializeToString(), f"Arrow of {where}")


def _aimed(chance: random.Random, all_methods: list[MethodDescriptor]) -> Case:
    """A read or a CALL that is right but for its values."""
    if chance.random() < 0.5:
        return Case(_named(all_methods, "ReadTable"), _read(chance).SerializeToString(), "a read")
    return Case(_named(all_methods, "CallProcedure"), _call(chance).SerializeToString(), "a CALL")


def _read(chance: random.Random) -> sys_catalog_pb2.ReadTableRequest:
    request: Any = extreme(chance, sys_catalog_pb2.ReadTableRequest.DESCRIPTOR)
    table = chance.choice(default_registry().tables)
    request.namespace, request.name = "sys", table.name
    if chance.random() < 0.8:
        request.ClearField("token")
    names = table.schema.names
    for clause in ("columns", "group_by", "order", "aggregates"):
        if chance.random() < 0.6:
            request.ClearField(clause)
        elif clause in ("columns", "group_by"):
            getattr(request, clause)[:] = chance.sample(names, 2)
        else:
            for item in getattr(request, clause):
                item.column = chance.choice(names)
    conditions = [condition.filter for condition in request.conditions if condition.HasField("filter")]
    if chance.random() < 0.7:
        request.ClearField("conditions")
    if chance.random() < 0.7:
        request.limit = abs(request.limit) % (2**63 - 1)
    for tested in (*request.filters, *conditions):
        _fit(chance, tested, chance.choice(list(table.schema)))
    return request  # type: ignore[no-any-return]


def _fit(chance: random.Random, tested: common_pb2.Filter, field: Any) -> None:
    """Makes a filter one of a column, mostly of the column's type."""
    tested.column = field.name
    if chance.random() < 0.7 and tested.operator not in common_pb2.Filter.Operator.values():
        tested.operator = common_pb2.Filter.IN
    if chance.random() < 0.8:
        count = 3 if tested.operator == common_pb2.Filter.IN else 1
        del tested.values[:]
        tested.values.extend(_fitting(chance, spark_type(field.type)) for _ in range(count))


def _call(chance: random.Random) -> control_pb2.CallProcedureRequest:
    procedure = chance.choice(default_registry().procedures)
    request = control_pb2.CallProcedureRequest(name=procedure.name, caller=chance.choice(TEXTS))
    for parameter in procedure.parameters:
        literal: Any = extreme(chance, common_pb2.Literal.DESCRIPTOR)
        if parameter.table_path and chance.random() < 0.8:
            literal = common_pb2.Literal(text=f"{DATABASE}.{chance.choice([LOG_TABLE, PRIMARY_KEY_TABLE])}")
        elif chance.random() < 0.7:
            literal = _fitting(chance, parameter.type)
        if parameter.required or chance.random() < 0.6:
            request.arguments.append(control_pb2.Argument(name=parameter.name, value=literal))
    if chance.random() < 0.3:
        request.idempotency_key = chance.choice(TEXTS)
    return request


def _fitting(chance: random.Random, kind: str) -> common_pb2.Literal:
    """Returns a literal of the parameter's type with an extreme value."""
    match kind:
        case "STRING":
            return common_pb2.Literal(text=chance.choice((*TEXTS, "accept", "retier", "adopt", "offsets", "rows")))
        case "BOOLEAN":
            return common_pb2.Literal(truth=chance.random() < 0.5)
        case "TIMESTAMP":
            return common_pb2.Literal(timestamp_us=chance.choice(INTEGERS))
        case "DOUBLE":
            return common_pb2.Literal(real=chance.choice(REALS))
        case _:
            return common_pb2.Literal(number=chance.choice(INTEGERS))


def _named(all_methods: list[MethodDescriptor], name: str) -> MethodDescriptor:
    return next(method for method in all_methods if method.name == name)
