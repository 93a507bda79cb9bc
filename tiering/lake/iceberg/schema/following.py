"""Checks whether a lake table still fits its source table, and what of its columns must follow the source. Pure.

Columns of a source with field ids are matched by these (`schema.column_ids`), those of other sources by name (`schema.drift`). A change
that another program made to the lake table is told from a change of the source by the schema that Lakeward wrote last.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.types import NestedField

from tiering.lake.iceberg.reading.view import TAG
from tiering.lake.iceberg.schema.columns import iceberg_schema, lake_columns, lake_type, recorded_ids, source_columns
from tiering.lake.iceberg.schema.drift import (
    added,
    another_column,
    check_column,
    check_form,
    check_ids,
    check_new,
    check_nullable,
    drift,
    extra,
    misfit,
    missing_columns,
)
from tiering.lake.iceberg.schema.evolution import SchemaUpdate, schema_id_of
from tiering.lake.iceberg.schema.layout import layout_of_table, sort_order_of
from tiering.lake.iceberg.schema.spec import check_own_fields, follow_spec, spec_columns
from tiering.lake.iceberg.schema.types import iceberg_type
from tiering.lake.schema.column_ids import COLUMN_IDS, ColumnIds, FollowedColumns, followed_columns, ids_of_table, matched_fields
from tiering.lake.table_options import ON_DROP_COLUMN, SORT, OnDropColumn
from tiering.model.schema.field_ids import field_id, last_field_id
from tiering.model.tables import SYSTEM_COLUMNS, TableInfo


def check_drift(table: TableInfo, metadata: TableMetadata) -> SchemaUpdate | None:
    """Returns what must change in this lake table before `table`'s rows fit it; None = nothing.

    Raises SchemaDrift that names the first column that another writer added, dropped, renamed or retyped, or that the lake table cannot
    follow. Raises SourceChanged if the lake table already follows newer columns of the source.
    """
    if not last_field_id(table.schema):
        return _additions(metadata, missing_columns(table, metadata))
    recorded = ids_of_table(recorded_ids(metadata.properties), table)
    expected = check_form(table, metadata)
    if recorded is None:
        check_ids(table, metadata)
    else:
        recorded.check_source(table)
    schema = metadata.schema()
    former = None if recorded is None else _own_schema(metadata, recorded)
    followed = followed_columns(
        source_columns(table.schema),
        lake_columns(schema),
        recorded,
        metadata.last_column_id,
        lake_type,
        keep_dropped=ON_DROP_COLUMN.of(table.properties) is OnDropColumn.KEEP,
        kept_ids=spec_columns(metadata),
    )
    if recorded is not None and former is not None:
        _check_foreign(table, metadata, former, recorded, followed)
    _check_extras(table, metadata, expected.schema, followed, recorded)
    _check_fits(table, metadata, expected.schema, followed, recorded)
    check_own_fields(table, expected, metadata)
    target = iceberg_schema(followed.columns, schema) if followed.changes else schema
    order, spec = _new_sort_order(table, target, metadata), follow_spec(table, expected, metadata, target)
    if recorded is not None and not followed.changes:  # the columns of a new spec must be there before it
        return spec or (None if order is None else SchemaUpdate(schema, (), {}, order))
    ids = ColumnIds(schema_id_of(target, metadata), followed.pairs, table.schema_id, followed.proof_names, table.table_id)
    return SchemaUpdate(target, followed.changes, {COLUMN_IDS: ids.text()}, order)


def _new_sort_order(table: TableInfo, schema: Schema, metadata: TableMetadata) -> SortOrder | None:
    """Returns the sort order that the lake table lacks; None = it has that of the option, or the option is `none`.

    With `none` the lake table keeps its sort order, which may be a user's, and new files are not sorted. It loses an order by a column that
    `schema` no longer has, because no commit may leave such an order."""
    entries, ids = SORT.of(table.properties), index_by_id(schema)
    if not entries and any(field.source_id not in ids for field in metadata.sort_order().fields):
        return UNSORTED_SORT_ORDER
    order_id = max((order.order_id for order in metadata.sort_orders), default=0) + 1
    target = sort_order_of(entries, schema, order_id)
    if not entries or layout_of_table(metadata).has_row_offsets or target.fields == metadata.sort_order().fields:
        return None
    return next((former for former in metadata.sort_orders if former.fields == target.fields), target)


def _own_schema(metadata: TableMetadata, recorded: ColumnIds) -> Schema | None:
    """Returns the schema that Lakeward wrote last. If another program removed it as unused, returns that of the newest tiering commit,
    which a tag keeps; None = it is gone, too.
    """
    tag = metadata.refs.get(TAG)
    tiered = None if tag is None else metadata.snapshot_by_id(tag.snapshot_id)
    schemas = {schema.schema_id: schema for schema in metadata.schemas}
    return schemas.get(recorded.schema_id) or (None if tiered is None or tiered.schema_id is None else schemas.get(tiered.schema_id))


def _additions(metadata: TableMetadata, columns: tuple[pa.Field[pa.DataType], ...]) -> SchemaUpdate | None:
    """Returns the addition of nullable columns. New field ids follow the last id that was ever assigned, also to a nested field."""
    ids = itertools.count(metadata.last_column_id + 1)
    fields = [
        NestedField(next(ids), column.name, iceberg_type(column.name, column.type, lambda: next(ids)), required=False) for column in columns
    ]
    changes = tuple(f"add {column.name}" for column in columns)
    return SchemaUpdate(added(metadata.schema(), fields), changes, {}) if fields else None


def _check_foreign(table: TableInfo, metadata: TableMetadata, former: Schema, recorded: ColumnIds, followed: FollowedColumns) -> None:
    """Raises SchemaDrift for a column that another program renamed or changed since Lakeward wrote the schema `former`.

    A change that the source made as well is no drift.
    """
    schema, names = metadata.schema(), {field_id(field): field for field in followed.columns}
    target = index_by_id(iceberg_schema(followed.columns, schema)) if followed.misfit is None and not followed.extras else {}
    present = {field.field_id: field for field in schema.fields}
    own_ids = {lake_id for _, lake_id in recorded.pairs}
    for before in former.fields:
        now = present.get(before.field_id)
        if now is None or (before.field_id not in own_ids and before.name not in SYSTEM_COLUMNS):
            continue
        target_field = target.get(before.field_id)
        if now.name != before.name and (before.field_id not in names or names[before.field_id].name != now.name):
            text = f"has the column {before.name!r} renamed to {now.name!r}"
            raise drift(table.path, before.name, text, mend="rename_column", lake_column=now.name, mended_as=before.name)
        if misfit(now, before) is not None and (target_field is None or misfit(now, target_field) is not None):
            check_column(table, before, now, schema)


def _check_extras(
    table: TableInfo, metadata: TableMetadata, expected: Schema, followed: FollowedColumns, recorded: ColumnIds | None
) -> None:
    """Raises SchemaDrift for a column or a nested field that only the lake table has, and that Lakeward did not write."""
    schema = metadata.schema()
    for path in followed.extras:
        field = schema.find_field(path.partition(".")[0])
        if "." in path:
            check_column(table, expected.find_field(field.name), field, schema)
            raise drift(table.path, field.name, f"has the field {path!r}, which the source table does not have")
        missing = {column.name for column in _unmatched(table, schema, recorded)}
        if field.name in missing:
            raise drift(table.path, field.name, another_column(field.name))
        raise extra(table, field, missing, metadata)


def _unmatched(table: TableInfo, schema: Schema, recorded: ColumnIds | None) -> Iterator[pa.Field[pa.DataType]]:
    """Yields the source columns that the lake table does not have."""
    matches = matched_fields(table.schema, lake_columns(schema), recorded)
    return (column for column in table.schema if (column.name,) not in matches)


def _check_fits(table: TableInfo, metadata: TableMetadata, expected: Schema, followed: FollowedColumns, recorded: ColumnIds | None) -> None:
    """Raises SchemaDrift for a column that the lake table cannot follow."""
    schema = metadata.schema()
    for column in _unmatched(table, schema, recorded):
        if recorded is None:
            check_new(table, column, metadata)
        elif field_id(column) not in recorded.lake_ids:
            check_nullable(table.path, column)
    if followed.misfit is None:
        return
    path, difference = followed.misfit
    name = path.partition(".")[0]
    for lake_field, source_field in _pair_of(table, schema, expected, recorded, name):
        check_column(table, source_field, lake_field, schema)
    raise drift(table.path, name, difference)


def _pair_of(
    table: TableInfo, schema: Schema, expected: Schema, recorded: ColumnIds | None, name: str
) -> Iterator[tuple[NestedField, NestedField]]:
    """Yields the lake's field of a source column, and the one with which the lake table would be created now."""
    number = matched_fields(table.schema, lake_columns(schema), recorded).get((name,))
    fields: Mapping[int, NestedField] = index_by_id(schema)
    if number is not None and number in fields and name in expected.column_names:
        yield fields[number], expected.find_field(name)
