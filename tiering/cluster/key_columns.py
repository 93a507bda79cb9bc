"""Checks key columns (bucket keys, the primary key, partition columns), and converts rows to the form of a key. Pure.

Key columns are NOT NULL and have the types of bucket keys (DESIGN 12). The key of a partitioned table contains the partition columns, so
that a key is unique in the table, and at least one other column. The bucket keys are part of the key, so that a key stays in one bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.cluster.rows import fit_columns
from tiering.cluster.writable import Rows
from tiering.errors import InvalidArgument, InvalidData, UnsupportedType
from tiering.model.schema.field_ids import without_metadata
from tiering.model.tables import TableInfo, TableType


@dataclass(frozen=True)
class KeyRole:
    """A kind of key, in the words of error messages, and the types that its columns may have."""

    noun: str
    part_of: str
    """Completes "column x cannot be"."""
    is_allowed: Callable[[pa.DataType], bool]
    allowed_types: str
    """The hint of an error about a type."""


def check_key_columns(schema: pa.Schema, names: Sequence[str], role: KeyRole) -> None:
    """Raises InvalidArgument (unknown, repeated or nullable column) or UnsupportedType, naming the column."""
    for position, name in enumerate(names):
        index = schema.get_field_index(name)
        if index < 0:
            raise InvalidArgument(f"the {role.noun} {name!r} is not a column", hint=f"Columns: {', '.join(schema.names)}.")
        if name in names[:position]:
            raise InvalidArgument(f"the {role.noun} {name!r} is named twice")
        field = schema.field(index)
        if not role.is_allowed(field.type):
            raise UnsupportedType(f"column {name!r} of type {field.type} cannot be {role.part_of}", hint=role.allowed_types, column=name)
        if field.nullable:
            raise InvalidArgument(f"the {role.noun} {name!r} is nullable", hint="Declare the column NOT NULL.")


def may_be_key(kind: pa.DataType) -> bool:
    """Returns whether a column of that type may be a bucket key, or part of a primary key (DESIGN 12)."""
    return not (pa.types.is_boolean(kind) or pa.types.is_floating(kind) or pa.types.is_nested(kind))


BUCKET_KEY = KeyRole(
    "bucket key", "a bucket key", may_be_key, "Bucket keys may be integers, decimals, dates, timestamps, strings or binaries."
)

_PRIMARY_KEY = KeyRole(
    "primary-key column", "part of a primary key", may_be_key, "Keys may be integers, decimals, dates, timestamps, strings or binaries."
)


def default_bucket_keys(primary_key: Sequence[str], partition_keys: Sequence[str]) -> tuple[str, ...]:
    """Returns the primary key without the partition columns, as Fluss does."""
    return tuple(name for name in primary_key if name not in partition_keys)


def check_primary_key(schema: pa.Schema, primary_key: Sequence[str], partition_keys: Sequence[str], bucket_keys: Sequence[str]) -> None:
    """Raises InvalidArgument or UnsupportedType naming the column."""
    check_key_columns(schema, primary_key, _PRIMARY_KEY)
    for name in partition_keys:
        if name not in primary_key:
            raise InvalidArgument(
                f"the partition column {name!r} is not part of the primary key ({', '.join(primary_key)})",
                hint="Add it to the primary key: a key must stay in one partition.",
            )
    if not default_bucket_keys(primary_key, partition_keys):
        raise InvalidArgument(
            "the primary key has only partition columns", hint="Add another column to it: otherwise each partition could have only one row."
        )
    for name in bucket_keys:
        if name not in primary_key:
            raise InvalidArgument(
                f"the bucket key {name!r} is not part of the primary key ({', '.join(primary_key)})",
                hint="Bucket keys of a primary-key table are some of its key columns: a key must stay in one bucket.",
            )


def check_log_table(table: TableInfo) -> None:
    """Raises InvalidArgument for a primary-key table."""
    if table.table_type is not TableType.LOG:
        raise InvalidArgument(
            f"{table.path} has a primary key ({', '.join(table.primary_key)}): rows cannot be appended to it", hint="Upsert them."
        )


@dataclass(frozen=True)
class Refusal:
    """An operation that log tables do not support, as the end of an error message, and a hint."""

    cannot: str
    hint: str


UPSERTS = Refusal("its rows cannot be upserted or deleted", "Append to it.")
SKIPS = Refusal(
    "none of its records can be skipped",
    "Only buckets of primary-key tables can be stopped at a record: see sys.tiering_buckets.stopped_at_offset.",
)
SNAPSHOTS = Refusal("it has no KV snapshots", "It needs none: rounds read its log.")


def check_primary_key_table(table: TableInfo, refusal: Refusal = UPSERTS) -> None:
    """Raises InvalidArgument for a log table."""
    if table.table_type is not TableType.PRIMARY_KEY:
        raise InvalidArgument(f"{table.path} is a log table, without a primary key: {refusal.cannot}", hint=refusal.hint)


def key_schema(table: TableInfo) -> pa.Schema:
    """Returns the schema of the key columns, in the key's order."""
    return pa.schema([table.schema.field(name) for name in table.primary_key])


def fit_keys(rows: Rows, table: TableInfo) -> pa.RecordBatch:
    """Returns keys as one batch of exactly the key columns. Raises the errors of `rows.fit_rows`."""
    check_key_names(rows.schema, table)
    return fit_columns(rows, without_metadata(key_schema(table)))


def check_key_names(have: pa.Schema, table: TableInfo) -> None:
    """Raises InvalidData unless `have` has exactly the key columns."""
    keys = ", ".join(table.primary_key)
    for name in have.names:
        if name not in table.primary_key:
            raise InvalidData(
                f"{name!r} is not a key column of {table.path}", hint=f"Keys are exactly: {keys}. Leave out all others.", column=name
            )
    for name in table.primary_key:
        if name not in have.names:
            raise InvalidData(f"the key column {name!r} of {table.path} is missing", hint=f"Keys are exactly: {keys}.", column=name)


def last_of_each_key(keys: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Returns the positions of the last row of each key, ascending."""
    names = [f"k{number}" for number in range(keys.num_columns)]
    numbered = pa.Table.from_arrays([*keys.columns, pa.array(np.arange(keys.num_rows))], names=[*names, "position"])
    last = numbered.group_by(names, use_threads=False).aggregate([("position", "max")]).column("position_max")
    return np.sort(last.to_numpy())
