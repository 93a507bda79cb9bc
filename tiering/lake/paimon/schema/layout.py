"""The layout of a Paimon table that Lakeward tiers to; `drift` checks whether a table has it.

The layout is that of Fluss's own tiering, so that its readers can read Lakeward's tables: the source columns, then `__bucket`, `__offset`,
`__timestamp` (up to 0.9) or nothing (`tiering.lake.layouts`). With a bucket key there are fixed buckets by it, without one all rows are in
Paimon's bucket 0. Each property is stored as `fluss.<key>`.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tiering.errors import InvalidArgument, InvalidName, UnsupportedType
from tiering.lake.column_names import check_column_names, folded_name
from tiering.lake.iceberg_options import PREFIX as ICEBERG_PREFIX
from tiering.lake.layouts import Layout
from tiering.lake.paimon.schema.types import lake_type
from tiering.lake.table_options import new_layout_of, public_options
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN, TableInfo, TableType

FLUSS_PROPERTY_PREFIX, PAIMON_PREFIX = "fluss.", "paimon."
BUCKET, BUCKET_KEY = "bucket", "bucket-key"
CHANGELOG_PRODUCER, INPUT = "changelog-producer", "input"
"""With this producer all changes are written to separate changelog files, in addition to the last change of each key."""
UNAWARE = -1
"""Value of `bucket` for a table without a bucket key: all its files are in bucket 0."""
SYSTEM_FIELDS = (
    pa.field(BUCKET_COLUMN, pa.int32()),
    pa.field(OFFSET_COLUMN, pa.int64()),
    pa.field(TIMESTAMP_COLUMN, pa.timestamp("ms", tz="UTC")),
)
"""The system columns in the form that Fluss creates: nullable, times in milliseconds."""
SET_BY_FLUSS = "table.replication.factor"
"""A property that each table of a Fluss cluster has (observed on 0.9.1), and no other table."""
_RESERVED = frozenset({"_sequence_number", "_value_kind", "_level", "_row_id", "rowkind"})
_RESERVED_PREFIX = "_key_"
"""Prefix of Paimon's own columns, which are reserved (`SpecialFields`)."""


@dataclass(frozen=True)
class TableLayout:
    """The required form of a lake table. `options`: those that decide where rows are stored and how they are read."""

    columns: pa.Schema
    partition_keys: tuple[str, ...]
    primary_key: tuple[str, ...]
    options: dict[str, str]


def table_layout(table: TableInfo, layout: Layout | None = None) -> TableLayout:
    """Returns the required form of `table`'s lake table with `layout`; None = the layout of its option.

    Raises UnsupportedType, InvalidArgument or InvalidName, naming the column.
    """
    layout = layout or new_layout_of(table)
    check_column_names(table)
    for name in table.schema.names:
        if folded_name(name) in _RESERVED or folded_name(name).startswith(_RESERVED_PREFIX):
            raise InvalidName(f"the column {name!r} has the name of one of Paimon's own columns", hint="Rename the column.", column=name)
    columns = pa.schema([pa.field(column.name, lake_type(column.name, column.type), column.nullable) for column in table.schema])
    for name in table.partition_keys:
        if columns.field(name).type not in (pa.string(), pa.date32(), pa.int32()):
            raise UnsupportedType(
                f"column {name!r} of type {columns.field(name).type} cannot be a partition column",
                hint="Partition columns are strings, dates or 32-bit integers.",
                column=name,
            )
    if table.table_type is TableType.PRIMARY_KEY:
        _check_primary_key(table, columns)
    keys = table.bucket_keys or tuple(name for name in table.primary_key if name not in table.partition_keys)
    options = {BUCKET: str(table.bucket_count), BUCKET_KEY: ",".join(keys)} if keys else {BUCKET: str(UNAWARE)}
    system = SYSTEM_FIELDS if layout.has_row_offsets else ()
    return TableLayout(pa.schema([*columns, *system]), table.partition_keys, table.primary_key, options)


def _check_primary_key(table: TableInfo, columns: pa.Schema) -> None:
    """Raises for a primary key that cannot be compared as values, may be null, or may leave its partition."""
    for name in table.primary_key:
        kind = columns.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            raise UnsupportedType(f"column {name!r} of type {kind} cannot be part of a primary key", column=name)
        if columns.field(name).nullable:
            raise InvalidArgument(f"the key column {name!r} is nullable", hint="Declare the column NOT NULL.", column=name)
    for name in table.partition_keys:
        if name not in table.primary_key:
            raise InvalidArgument(
                f"the partition column {name!r} of {table.path} is not part of its primary key", hint="Add it to the key.", column=name
            )
    if set(table.primary_key) <= set(table.partition_keys):
        raise InvalidArgument(f"the primary key of {table.path} has only partition columns", hint="Add another column.")


def new_table_options(table: TableInfo, layout: TableLayout) -> dict[str, str]:
    """Returns all options of a new lake table. Raises InvalidArgument for a `paimon.` option of a table that is not from a Fluss cluster.

    Fluss accepts a lake table as its own only if it has exactly the options that Fluss would have set: every property, secret or not, and
    each `paimon.<x>` as `<x>` (0.9.1, PaimonLakeCatalog).
    """
    of_fluss = SET_BY_FLUSS in table.properties
    own = {name.removeprefix(PAIMON_PREFIX): value for name, value in table.properties.items() if name.startswith(PAIMON_PREFIX)}
    if own and not of_fluss:
        name = PAIMON_PREFIX + next(iter(own))
        raise InvalidArgument(f"the table option {name!r} is not supported", hint="Set it on the lake table.", table_path=table.path)
    kept = (table.properties if of_fluss else public_options(table.properties)).items()
    fluss = {FLUSS_PROPERTY_PREFIX + name: value for name, value in kept if not name.startswith((ICEBERG_PREFIX, PAIMON_PREFIX))}
    followed = {CHANGELOG_PRODUCER: INPUT} if table.table_type is TableType.PRIMARY_KEY else {}
    return {**fluss, "file.format": "parquet", **own, "partition.legacy-name": "false", **followed, **layout.options}
