"""Reads the statements of definitions.proto: the requests for idempotency, the definition of a new table, and the changes of a table. Pure.

Spark adds properties of its own to those of the user. They are left out, or refused where they ask for something that no source table has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pyarrow as pa

from tiering.cluster.writable import TableSpec
from tiering.coordinator.definitions.columns import field_from_json, schema_from_json
from tiering.errors import InvalidArgument
from tiering.lake.table_options import HIDDEN_VALUE
from tiering.model.declare import hidden, parameter
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
from tiering.model.tables import BUCKET_KEY, BUCKET_NUM, PRIMARY_KEY, is_shown_property
from tiering.procedures.base import Mutation
from tiering.rpc.v1 import definitions_pb2 as pb

_HIDDEN_VALUES = (HIDDEN_VALUE, "*********(redacted)")
"""Texts that the service and Spark (`spark.sql.redaction.options.regex`) show in the place of a value."""
_REFUSED = {
    "location": "location",
    "external": "files of its own (EXTERNAL)",
    "collation": "collation",
    "hive.stored-as": "file format (STORED AS)",
    "hive.input-format": "file format (STORED AS)",
    "hive.output-format": "file format (STORED AS)",
    "hive.serde": "file format (ROW FORMAT)",
}
"""Properties that stand for clauses of CREATE TABLE, with what the clause asks for."""
_SPARKS_OWN = frozenset({"owner", "is_managed_location"})
"""Properties that Spark adds to each table: the Spark user, and that no LOCATION was written."""
_PROVIDERS = ("lakeward", "fluss")
"""Names that USING may have. SHOW CREATE TABLE prints the first one."""
_OPTION_PREFIX = "option."
"""Spark repeats each of OPTIONS (...) with this prefix."""
_SHAPE = (PRIMARY_KEY, BUCKET_KEY, BUCKET_NUM)


@dataclass(frozen=True)
class StatementResult:
    """The result of a statement. `table_id`: the table that it created, changed or dropped."""

    table_id: int | None = hidden(default=None)


@dataclass(frozen=True, kw_only=True)
class Statement(Mutation[StatementResult]):
    """A statement, as an idempotency key is bound to it."""

    procedure = "DEFINITION"
    name: str = parameter("First words of the statement, such as CREATE TABLE.")
    digest: str = parameter("SHA-256 of the whole statement.")


def statement_from_pb(name: str, message: Any) -> Statement:
    """Returns the statement with the caller and the key of its message."""
    contents = type(message)()
    contents.CopyFrom(message)
    contents.ClearField("caller")
    contents.ClearField("idempotency_key")
    return Statement(
        name=name,
        digest=sha256(contents.SerializeToString(deterministic=True)).hexdigest(),
        caller=message.caller,
        idempotency_key=message.idempotency_key if message.HasField("idempotency_key") else None,
    )


def spec_from_pb(message: pb.CreateTableStatement) -> TableSpec:
    """Returns the definition of the new table.

    Columns of the primary key, bucket keys and partition columns become NOT NULL, as in Fluss: the columns of CREATE TABLE AS SELECT are
    always nullable. Raises InvalidArgument, UnsupportedType.
    """
    schema = schema_from_json(message.columns_json)
    properties = _properties(message.properties)
    shape = {name: properties.pop(name, None) for name in _SHAPE}
    primary_key, bucket_keys = (_columns(schema, shape[name], name) for name in (PRIMARY_KEY, BUCKET_KEY))
    partition_keys = _as_in(schema, [_partition_key(transform) for transform in message.partitioning])
    keys = {*primary_key, *bucket_keys, *partition_keys}
    return TableSpec(
        schema=pa.schema([field.with_nullable(field.nullable and field.name not in keys) for field in schema]),
        bucket_count=_bucket_count(shape[BUCKET_NUM]),
        bucket_keys=bucket_keys,
        properties=properties,
        primary_key=primary_key,
        partition_keys=partition_keys,
    )


def check_database_properties(properties: Mapping[str, str]) -> None:
    """Raises InvalidArgument for a property or comment of a database: no cluster keeps them."""
    if names := sorted(properties.keys() - _SPARKS_OWN):
        raise InvalidArgument(
            f"a database has no properties, comment or location here: {', '.join(names)[:200]}", hint="Create it without them."
        )


@dataclass(frozen=True)
class TableChanges:
    """The changes of an ALTER TABLE. `properties`: the new values; None = without the property."""

    properties: Mapping[str, str | None]
    columns: Sequence[SchemaChange]


def changes_from_pb(message: pb.AlterTableStatement) -> TableChanges:
    """Returns the changes. Raises InvalidArgument, UnsupportedType."""
    properties: dict[str, str | None] = {}
    columns: list[SchemaChange] = []
    for change in message.changes:
        kind = change.WhichOneof("change")
        if kind == "set_property":
            properties |= _properties({change.set_property.name: change.set_property.value})
        elif kind == "remove_property":
            properties[change.remove_property] = None
        else:
            columns.append(_column_change(change))
    for name in (*_SHAPE, "location", "provider"):
        if name in properties:
            raise InvalidArgument(
                f"the property {name!r} of a table cannot change", hint="Create another table with that property, and load it."
            )
    return TableChanges(properties, columns)


def _column_change(change: pb.TableChange) -> SchemaChange:
    match change.WhichOneof("change"):
        case "add_column":
            added = change.add_column
            position = _position(added.position) if added.HasField("position") else None
            return AddColumn(field_from_json(added.column_json), tuple(added.parent.names), position)
        case "rename_column":
            return RenameColumn(tuple(change.rename_column.column.names), change.rename_column.new_name)
        case "drop_column":
            return DropColumn(tuple(change.drop_column.names))
        case "change_type":
            return ChangeType(tuple(change.change_type.column.names), field_from_json(change.change_type.type_json).type)
        case "change_comment":
            return ChangeComment(tuple(change.change_comment.column.names), change.change_comment.comment or None)
        case "change_nullability":
            path = tuple(change.change_nullability.column.names)
            if change.change_nullability.nullable:
                return DropNotNull(path)
            raise InvalidArgument(
                f"the column {'.'.join(path)!r} cannot become NOT NULL", hint="Rows of the table may have NULL in it.", column=path[-1]
            )
        case "move_column":
            return MoveColumn(tuple(change.move_column.column.names), _position(change.move_column.position))
        case other:
            raise InvalidArgument(f"the change {other} is not known to this service", hint="Use a plugin of the service's version.")


def _position(message: pb.ColumnPosition) -> After:
    return After(message.after if message.HasField("after") else None)


def _properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties without those that Spark adds. Raises InvalidArgument."""
    kept: dict[str, str] = {}
    for name, value in properties.items():
        if name == "provider" and value.lower() not in _PROVIDERS:
            raise InvalidArgument(
                f"the table cannot be created USING {value[:60]}: its rows are in the streaming store",
                hint="Leave USING out. The property 'table.datalake.format' chooses the format of the lake table.",
            )
        if name in _REFUSED:
            raise InvalidArgument(
                f"a table of the streaming store has no {_REFUSED[name]}", hint="Leave it out: the store decides where and how it has rows."
            )
        if is_shown_property(name):
            raise InvalidArgument(
                f"the property {name[:60]!r} shows how the table is, and cannot be set",
                hint="To enable the lake, set 'table.datalake.enabled'. Other options begin with 'table.', too.",
            )
        if value in _HIDDEN_VALUES:
            raise InvalidArgument(
                f"the value of the property {name[:60]!r} is {value}, which stands for a hidden value",
                hint="Write the value itself.",
            )
        is_repeated = name.startswith(_OPTION_PREFIX) and name.removeprefix(_OPTION_PREFIX) in properties
        if name not in _SPARKS_OWN and name != "provider" and not is_repeated:
            kept[name] = value
    return kept


def _columns(schema: pa.Schema, text: str | None, property_name: str) -> tuple[str, ...]:
    """Returns the columns that a property lists, as the schema spells them; none without the property (None).

    Names that are no columns stay for the cluster to refuse.
    """
    if text is None:
        return ()
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise InvalidArgument(f"the property {property_name!r} is {text[:60]!r}", hint="Write column names with commas between them.")
    return _as_in(schema, names)


def _as_in(schema: pa.Schema, names: Sequence[str]) -> tuple[str, ...]:
    by_folded_name = {name.casefold(): name for name in schema.names}
    return tuple(name if name in schema.names else by_folded_name.get(name.casefold(), name) for name in names)


def _bucket_count(text: str | None) -> int:
    digits = "1" if text is None else text.strip() or "1"
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise InvalidArgument(f"the property {BUCKET_NUM!r} is {digits[:60]!r}", hint="It is a number of buckets, such as '4'.")
    return int(digits)


def _partition_key(transform: pb.PartitionTransform) -> str:
    names = transform.column.names
    if transform.name != "identity" or len(names) != 1:
        raise InvalidArgument(
            f"a table cannot be partitioned by {transform.text[:100]}: each partition has one value of each partition column",
            hint="Write a column in PARTITIONED BY, such as a column with the day. For CLUSTERED BY, set 'bucket.key' and 'bucket.num'.",
        )
    return str(names[0])
