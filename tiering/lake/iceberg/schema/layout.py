"""The layout of an Iceberg table to which Lakeward tiers. Pure. `drift` tells whether a table has it.

The layout is that of Fluss's own tiering, so that Fluss's readers can read the table.

With system columns (up to 0.9): the source columns, followed by `__bucket`, `__offset`, `__timestamp`, which are required. Partitioned by
the partition columns (identity), then by the bucket: by `bucket[n](key)`, named `<key>_bucket`, if there is exactly one bucket key, else by
`identity(__bucket)`. Sorted by `__offset`.

Clean (from 1.0, FIP-27): the source columns, and the same partitions without `identity(__bucket)`. Not sorted. A log table of the embedded
cluster may have further partition fields, those of the option `table.datalake.partition`, behind Lakeward's own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import INITIAL_SORT_ORDER_ID, UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, parse_transform
from pyiceberg.types import BooleanType, DateType, DoubleType, FloatType, IntegerType, NestedField, PrimitiveType, StringType
from pyiceberg.utils.properties import property_as_int

from tiering.errors import InvalidArgument, InvalidName, UnsupportedType
from tiering.lake.column_names import check_column_names, folded_name
from tiering.lake.iceberg.schema.columns import lake_columns
from tiering.lake.iceberg.schema.types import iceberg_type
from tiering.lake.iceberg_options import PREFIX, lake_table_properties
from tiering.lake.layouts import Layout, layout_of
from tiering.lake.schema.column_ids import COLUMN_IDS, same_fields
from tiering.lake.schema.file_order import PartitionEntry, SortEntry
from tiering.lake.table_options import PARTITION, SORT, new_layout_of, public_options
from tiering.lake.writing.encodings import COMPRESSION
from tiering.model.schema.field_ids import comment, last_field_id
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, TableInfo, TableType

FORMAT_VERSION = 2
FLUSS_PROPERTY_PREFIX = "fluss."

DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
"""Iceberg's property by which a commit deletes old metadata files; with false they stay. New tables do not set it: Lakeward deletes these
files itself after each confirmed commit."""
GC_ENABLED = "gc.enabled"
"""Iceberg's property by which a user says that other tables may share files of this one. With false, nothing expires or is deleted."""
PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"
PREVIOUS_VERSIONS_MAX = 20
"""Number of former metadata files of a new table. Each names all snapshots, and Iceberg's default of 100 files takes megabytes."""

PARTITION_RECORD = "lakeward.partition-spec"
"""The lake table's property with the id of the spec that Lakeward set last, and the number of Lakeward's own fields in it: `2/1`. A table
that never had the option `table.datalake.partition` does not have the property; all its partition fields are Lakeward's own."""
FIRST_SPEC = 0
"""The id of the spec with which every catalog creates a table."""
_RECORD = re.compile(r"([0-9]{1,9})/([0-9]{1,3})", re.ASCII)

RESERVED_COLUMNS = frozenset({"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"})
"""Iceberg's metadata columns (spec, "Reserved Field IDs"). Spark refuses every scan of a table that has its own column of such a name."""

_UNHASHABLE = BooleanType | FloatType | DoubleType


@dataclass(frozen=True)
class TableLayout:
    """The parts from which a new lake table is created."""

    schema: Schema
    spec: PartitionSpec
    sort_order: SortOrder
    properties: dict[str, str]


def table_layout(table: TableInfo, layout: Layout | None = None) -> TableLayout:
    """Returns the parts of `table`'s lake table in `layout`, or in the layout of its option.

    Raises UnsupportedType, InvalidArgument or InvalidName that names the column.
    """
    layout = layout or new_layout_of(table)
    check_column_names(table, paths_are_names=True)
    schema = _schema(table, layout)
    properties = _properties(table) | _column_ids(table, schema)
    if partition_entries(table, layout):
        properties[PARTITION_RECORD] = partition_record(FIRST_SPEC, own_fields(table, layout))
    return TableLayout(schema, _spec(table, schema, layout), _sort_order(table, schema, layout), properties)


def layout_of_schema(schema: Schema) -> Layout:
    """Returns the layout of a lake table whose columns were checked before."""
    return layout_of(schema.column_names)


def layout_of_table(metadata: TableMetadata) -> Layout:
    """Returns the layout of any lake table."""
    return layout_of(metadata.schema().column_names, {name for schema in metadata.schemas for name in schema.column_names})


def has_bucket_in_partition(table: TableInfo, layout: Layout) -> bool:
    """Whether the partition spec has the bucket. If not, all buckets of a partition share a partition value, and a file of another writer
    may hold rows of several buckets."""
    return layout.partitions_by_bucket or len(bucket_keys(table)) == 1


def own_fields(table: TableInfo, layout: Layout) -> int:
    """Returns the number of Lakeward's own fields in the partition spec. They are the first ones."""
    return len(table.partition_keys) + has_bucket_in_partition(table, layout)


def partition_entries(table: TableInfo, layout: Layout) -> tuple[PartitionEntry, ...]:
    """Returns the entries of the table's option, whose fields follow Lakeward's own."""
    is_possible = table.table_type is TableType.LOG and layout is Layout.CLEAN
    return PARTITION.of(table.properties) if is_possible else ()


def partition_record(spec_id: int, own: int) -> str:
    """Returns the value of PARTITION_RECORD."""
    return f"{spec_id}/{own}"


def recorded_partition(properties: Mapping[str, str]) -> tuple[int, int] | None:
    """Returns the spec id and the number of own fields in PARTITION_RECORD; None if there is none that can be read."""
    match = _RECORD.fullmatch(properties.get(PARTITION_RECORD, ""))
    return None if match is None else (int(match[1]), int(match[2]))


def recorded_spec(properties: Mapping[str, str]) -> int | None:
    """Returns the id of the spec that Lakeward set last, in a table that has or had the option; None if it never had it."""
    recorded = recorded_partition(properties)
    return None if recorded is None else recorded[0]


def own_spec_fields(metadata: TableMetadata, spec_id: int) -> tuple[PartitionField, ...]:
    """Returns Lakeward's own fields of a spec, by the lake table alone."""
    recorded = recorded_partition(metadata.properties)
    fields = metadata.specs()[spec_id].fields
    return tuple(fields if recorded is None else fields[: recorded[1]])


def transform_of(entry: PartitionEntry) -> Transform[Any, Any]:
    """Returns Iceberg's transform of an entry."""
    return parse_transform(entry.transform.value if entry.number is None else f"{entry.transform.value}[{entry.number}]")


def _sort_order(table: TableInfo, schema: Schema, layout: Layout) -> SortOrder:
    if not layout.has_row_offsets:
        return sort_order_of(SORT.of(table.properties), schema)
    offset = schema.find_field(OFFSET_COLUMN)
    return SortOrder(SortField(offset.field_id, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST))


def sort_order_of(entries: Sequence[SortEntry], schema: Schema, order_id: int = INITIAL_SORT_ORDER_ID) -> SortOrder:
    """Returns the sort order by these columns of `schema`."""
    if not entries:
        return UNSORTED_SORT_ORDER
    fields = (
        SortField(
            schema.find_field(entry.column).field_id,
            IdentityTransform(),
            SortDirection.DESC if entry.descending else SortDirection.ASC,
            NullOrder.NULLS_FIRST if entry.nulls_first else NullOrder.NULLS_LAST,
        )
        for entry in entries
    )
    return SortOrder(*fields, order_id=order_id)


def _schema(table: TableInfo, layout: Layout) -> Schema:
    # The ids only link this schema with its spec and order. Creating the table numbers the columns 1..n in their order.
    columns = layout.lake_schema(table)
    _check_reserved_names(columns.names)
    nested = itertools.count(len(columns) + 1)
    fields = [
        NestedField(
            position,
            column.name,
            iceberg_type(column.name, column.type, lambda: next(nested)),
            required=not column.nullable,
            doc=comment(column),
        )
        for position, column in enumerate(columns, start=1)
    ]
    if table.table_type is TableType.LOG:
        return Schema(*fields)
    _check_primary_key(table, {field.name: field for field in fields})
    return Schema(*fields, identifier_field_ids=[field.field_id for field in fields if field.name in table.primary_key])


def _check_reserved_names(names: Sequence[str]) -> None:
    for name in names:
        if folded_name(name) in RESERVED_COLUMNS:
            raise InvalidName(
                f"the column {name!r} has the name of one of Iceberg's metadata columns, so no engine could read the lake table",
                hint="Rename the column.",
                column=name,
            )


def _check_primary_key(table: TableInfo, fields: Mapping[str, NestedField]) -> None:
    """Raises an error for a primary key that cannot be compared by value, may be null, or does not include the partition columns."""
    if not table.primary_key:
        raise InvalidArgument(f"the primary-key table {table.path} has no key columns", table_path=table.path)
    for name in table.primary_key:
        if name not in fields:
            raise InvalidArgument(f"there is no column {name!r} for the primary key of {table.path}", column=name)
        if not isinstance(fields[name].field_type, PrimitiveType) or isinstance(fields[name].field_type, _UNHASHABLE):
            raise UnsupportedType(f"column {name!r} of type {fields[name].field_type} cannot be part of a primary key", column=name)
        if fields[name].optional:
            raise InvalidArgument(f"the key column {name!r} is nullable", hint="Declare the column NOT NULL.", column=name)
    for name in table.partition_keys:
        if name not in table.primary_key:
            raise InvalidArgument(
                f"the partition column {name!r} of {table.path} is not part of its primary key", hint="Add it to the key.", column=name
            )


def _spec(table: TableInfo, schema: Schema, layout: Layout) -> PartitionSpec:
    columns: list[tuple[str, str, Transform[Any, Any]]] = []
    for name in table.partition_keys:
        _check_partition_key(schema.find_field(name))
        columns.append((name, name, IdentityTransform()))
    keys = bucket_keys(table)
    if len(keys) == 1:
        _check_bucket_key(table, schema, keys[0])
        columns.append((f"{keys[0]}_bucket", keys[0], BucketTransform(table.bucket_count)))
    elif layout.partitions_by_bucket:
        columns.append((BUCKET_COLUMN, BUCKET_COLUMN, IdentityTransform()))
    columns.extend((entry.field_name, entry.column, transform_of(entry)) for entry in partition_entries(table, layout))
    ids = itertools.count(PARTITION_FIELD_ID_START)
    return PartitionSpec(*(PartitionField(schema.find_field(source).field_id, next(ids), how, name) for name, source, how in columns))


def bucket_keys(table: TableInfo) -> tuple[str, ...]:
    """Returns the columns that choose a row's bucket: the declared ones, else those of the primary key without the partition columns."""
    return table.bucket_keys or tuple(name for name in table.primary_key if name not in table.partition_keys)


def _check_bucket_key(table: TableInfo, schema: Schema, name: str) -> None:
    """Checks a bucket key: Iceberg's bucket transform has no floats, booleans or nested types, and gives null for null (spec, "Bucket
    Transform Details")."""
    field = schema.find_field(name)
    if not BucketTransform(table.bucket_count).can_transform(field.field_type) or isinstance(field.field_type, _UNHASHABLE):
        raise UnsupportedType(f"column {name!r} of type {field.field_type} cannot be a bucket key of a lake table", column=name)
    if field.optional:
        raise InvalidArgument(f"the bucket key {name!r} is nullable", hint="Declare the column NOT NULL.", column=name)
    for other in schema.fields:
        if folded_name(other.name) == folded_name(f"{name}_bucket"):  # engines compare names without regard to case
            raise InvalidName(
                f"the column {other.name} has the name of the lake table's partition by the bucket key {name!r}",
                hint="Rename the column.",
                column=other.name,
            )


def _check_partition_key(field: NestedField) -> None:
    if not isinstance(field.field_type, StringType | DateType | IntegerType):
        raise UnsupportedType(
            f"column {field.name!r} of type {field.field_type} cannot be a partition column",
            hint="Partition columns are strings, dates or 32-bit integers.",
            column=field.name,
        )


def _properties(table: TableInfo) -> dict[str, str]:
    properties = {
        "format-version": str(FORMAT_VERSION),
        PREVIOUS_VERSIONS: str(PREVIOUS_VERSIONS_MAX),
        "write.parquet.compression-codec": COMPRESSION,
    }
    if table.table_type is TableType.PRIMARY_KEY:
        properties |= {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}
    public = public_options(table.properties)
    others = {FLUSS_PROPERTY_PREFIX + name: value for name, value in public.items() if not name.startswith(PREFIX)}
    return {**properties, **lake_table_properties(table.properties), **others, "format-version": str(FORMAT_VERSION)}


def _column_ids(table: TableInfo, schema: Schema) -> dict[str, str]:
    """Returns the property with the field ids of the new lake table; empty if the source has no field ids.

    A catalog numbers the columns of a new table first, then the fields nested in them (Iceberg's `TypeUtil.assignFreshIds`).
    """
    if not last_field_id(table.schema):
        return {}
    ids = same_fields(table, lake_columns(assign_fresh_schema_ids(schema)))
    return {COLUMN_IDS: ids.text()}


def target_file_bytes(table: TableInfo, properties: Mapping[str, str]) -> int:
    """Returns the size at which a data file ends: the source table's option, else the lake table's property, else Iceberg's default."""
    if table.target_file_bytes is not None:
        return table.target_file_bytes
    key, default = TableProperties.WRITE_TARGET_FILE_SIZE_BYTES, TableProperties.WRITE_TARGET_FILE_SIZE_BYTES_DEFAULT
    return property_as_int(dict(properties), key, default) or default
