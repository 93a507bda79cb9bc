"""How an Iceberg table looks that Lakeward tiers to, and whether a given one does. Pure.

The layout is that of Fluss's own tiering (0.9.1), so that its readers can read ours: the source columns, then
`__bucket`, `__offset`, `__timestamp`, required; partitioned by the partition columns (identity), then by the bucket:
`bucket[n](key)`, named `<key>_bucket`, for exactly one bucket key, else `identity(__bucket)`; sorted by `__offset`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform
from pyiceberg.types import BooleanType, DateType, DoubleType, FloatType, IntegerType, NestedField, StringType

from tiering.errors import InvalidArgument, InvalidName, SchemaDrift, UnsupportedType
from tiering.lake.iceberg.types import iceberg_type, same_type
from tiering.model import BUCKET_COLUMN, OFFSET_COLUMN, SYSTEM_COLUMNS, TableInfo, TableType

FORMAT_VERSION = 2
FLUSS_PROPERTY_PREFIX = "fluss."
ICEBERG_PROPERTY_PREFIX = "iceberg."

_UNHASHABLE = BooleanType | FloatType | DoubleType
_DRIFT_HINT = "Mend the lake table, then CALL sys.tier_table. The rows stay in the log until then."


@dataclass(frozen=True)
class TableLayout:
    """What a new lake table is made from."""

    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    properties: dict[str, str]


def table_layout(table: TableInfo) -> TableLayout:
    """The layout of `table`'s lake table; raises UnsupportedType, InvalidArgument or InvalidName, naming the column."""
    schema = _schema(table)
    spec = _spec(table, schema)
    offset = schema.find_field(OFFSET_COLUMN)
    sort_order = SortOrder(SortField(offset.field_id, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST))
    return TableLayout(schema, spec, sort_order, _properties(table))


def check_drift(table: TableInfo, schema: Schema, spec: PartitionSpec, format_version: int) -> None:
    """Whether `table`'s rows fit a lake table; raises SchemaDrift naming the first column that does not.

    Columns are matched by name: their order and their field ids are the lake's own.
    """
    expected = table_layout(table)
    if format_version != FORMAT_VERSION:
        raise _drift(table, None, f"has format version {format_version}; Lakeward writes version {FORMAT_VERSION}")
    actual = {field.name: field for field in schema.fields}
    for field in expected.schema.fields:
        _check_column(table, field, actual.pop(field.name, None))
    for extra in actual:
        raise _drift(table, extra, f"has the column {extra!r}, which the source table does not have")
    found, wanted = _spec_text(schema, spec), _spec_text(expected.schema, expected.spec)
    if found != wanted:
        raise _drift(table, None, f"is partitioned by [{found}]; its source table's buckets need [{wanted}]")


def _check_column(table: TableInfo, wanted: NestedField, found: NestedField | None) -> None:
    name = wanted.name
    if found is None:
        raise _drift(table, name, f"lacks the column {name!r}")
    if not same_type(found.field_type, wanted.field_type):
        raise _drift(table, name, f"has the column {name!r} as {found.field_type}; the source table has it as {wanted.field_type}")
    if found.required and wanted.optional:
        raise _drift(table, name, f"requires values in the column {name!r}, which is nullable in the source table")
    if name in SYSTEM_COLUMNS and found.optional:
        raise _drift(table, name, f"has the system column {name!r} as nullable; it must be required")


def _drift(table: TableInfo, column: str | None, what: str) -> SchemaDrift:
    return SchemaDrift(f"the lake table {table.path} {what}", hint=_DRIFT_HINT, table_path=table.path, column=column)


def _schema(table: TableInfo) -> Schema:
    # The ids only tie this schema to its spec and order: creating the table numbers the columns 1..n in their order.
    columns = table.lake_schema()
    nested = itertools.count(len(columns) + 1)
    fields = [
        NestedField(position, column.name, iceberg_type(column.name, column.type, lambda: next(nested)), required=not column.nullable)
        for position, column in enumerate(columns, start=1)
    ]
    keys = [field.field_id for field in fields if field.name in table.primary_key]
    return Schema(*fields, identifier_field_ids=keys if table.table_type is TableType.PRIMARY_KEY else [])


def _spec(table: TableInfo, schema: Schema) -> PartitionSpec:
    columns: list[tuple[str, str, Transform[Any, Any]]] = []
    for name in table.partition_keys:
        _check_partition_key(schema.find_field(name))
        columns.append((name, name, IdentityTransform()))
    keys = bucket_keys(table)
    if len(keys) == 1:
        _check_bucket_key(table, schema, keys[0])
        columns.append((f"{keys[0]}_bucket", keys[0], BucketTransform(table.bucket_count)))
    else:
        columns.append((BUCKET_COLUMN, BUCKET_COLUMN, IdentityTransform()))
    ids = itertools.count(PARTITION_FIELD_ID_START)
    return PartitionSpec(*(PartitionField(schema.find_field(source).field_id, next(ids), how, name) for name, source, how in columns))


def bucket_keys(table: TableInfo) -> tuple[str, ...]:
    """The columns that choose a row's bucket: those declared, else the primary key's but for the partition columns."""
    return table.bucket_keys or tuple(name for name in table.primary_key if name not in table.partition_keys)


def _check_bucket_key(table: TableInfo, schema: Schema, name: str) -> None:
    """Iceberg's bucket transform (spec, "Bucket Transform Details") has no floats, booleans or nested types, and null for null."""
    field = schema.find_field(name)
    if not BucketTransform(table.bucket_count).can_transform(field.field_type) or isinstance(field.field_type, _UNHASHABLE):
        raise UnsupportedType(f"column {name!r} of type {field.field_type} cannot be a bucket key of a lake table", column=name)
    if field.optional:
        raise InvalidArgument(f"the bucket key {name!r} is nullable", hint="Declare the column NOT NULL.", column=name)
    if any(f"{name}_bucket" == other.name for other in schema.fields):
        raise InvalidName(
            f"the column {name}_bucket has the name of the lake table's partition by the bucket key {name!r}",
            hint="Rename the column.",
            column=f"{name}_bucket",
        )


def _check_partition_key(field: NestedField) -> None:
    if not isinstance(field.field_type, StringType | DateType | IntegerType):
        raise UnsupportedType(
            f"column {field.name!r} of type {field.field_type} cannot be a partition column",
            hint="Partition columns are strings, dates or 32-bit integers.",
            column=field.name,
        )


def _spec_text(schema: Schema, spec: PartitionSpec) -> str:
    return ", ".join(f"{field.name}: {field.transform}({schema.find_column_name(field.source_id)})" for field in spec.fields)


def _properties(table: TableInfo) -> dict[str, str]:
    properties = {
        "format-version": str(FORMAT_VERSION),
        # A catalog's defaults must not switch on clean-up that runs inside of a commit request of ours: after a request
        # was sent, nothing is deleted (DESIGN 6 step 7).
        "write.metadata.delete-after-commit.enabled": "false",
        "write.parquet.compression-codec": "zstd",
    }
    if table.table_type is TableType.PRIMARY_KEY:
        properties |= {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}
    for key, value in table.properties.items():
        own = key.removeprefix(ICEBERG_PROPERTY_PREFIX)
        properties[own if own != key else FLUSS_PROPERTY_PREFIX + key] = value
    return {**properties, "format-version": str(FORMAT_VERSION)}
