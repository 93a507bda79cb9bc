"""Checks whether a Paimon table still fits its source table, and how its columns have to follow those of the source.

Columns are matched as `tiering.lake.schema.column_ids` describes; the lake table may have them in any order. Readers find values by field
id, which Lakeward never changes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tiering.errors import RoundFailed, SchemaDrift
from tiering.lake.paimon.schema.allowed_options import RefusedOption, refused_option
from tiering.lake.paimon.schema.layout import BUCKET, BUCKET_KEY, SYSTEM_FIELDS, UNAWARE, TableLayout, table_layout
from tiering.lake.paimon.schema.stored_schema import StoredSchema
from tiering.lake.paimon.schema.types import holds, lake_type
from tiering.lake.rules.hints import keeping_table_hint, new_table_hint, tier_call
from tiering.lake.schema.column_ids import FollowedColumns, followed_columns, ids_of_table, matched_fields
from tiering.lake.table_options import ON_DROP_COLUMN, OnDropColumn
from tiering.model.schema.field_ids import first_name, has_field_ids
from tiering.model.tables import TIMESTAMP_COLUMN, TableInfo, TablePath


def check_drift(table: TableInfo, schema: StoredSchema) -> FollowedColumns:
    """Returns the columns that this lake table shall have after its source; they are the present ones if `changes` is empty.

    Raises SchemaDrift naming the first column or option that was changed by another program, or the first column that the lake table cannot
    follow. Raises SourceChanged if the lake table already follows newer columns of the source.
    """
    layout = table_layout(table, schema.layout)
    _check_options(table.path, layout, schema)
    if schema.layout.has_row_offsets:
        for column in SYSTEM_FIELDS:
            _check_system_column(table.path, column, schema)
    recorded = ids_of_table(schema.column_ids, table)
    if recorded is None:
        _check_unrecorded(table, schema)
    else:
        recorded.check_source(table)
    former = None if recorded is None else schema.version(recorded.schema_id)
    followed = followed_columns(
        table.schema,
        schema.numbered,
        recorded,
        schema.highest_id,
        lambda kind: lake_type("", kind),
        keep_dropped=ON_DROP_COLUMN.of(table.properties) is OnDropColumn.KEEP,
        recorded_lake=None if former is None else former.numbered,
        holds_type=holds,
    )
    if followed.misfit is not None:
        path, difference = followed.misfit
        raise drift(table.path, path, difference, _misfit_hint(table, schema, path))
    for name in followed.extras:
        raise drift(table.path, name, f"has the column {name!r}, which the source table does not have")
    return followed


def check_written(path: TablePath, written: StoredSchema, current: StoredSchema) -> None:
    """Raises RoundFailed unless files written for one schema may be added to the table with another schema, whose columns readers find in
    them by name. The round then begins again.
    """
    for column in written.columns:
        name = column.name
        is_same = current.field_ids.get(name) == written.field_ids[name] and current.columns.field(name).type == column.type
        if not is_same:
            raise RoundFailed(f"the column {name!r} of the lake table {path} was changed while a round wrote files for it", table_path=path)


def drift(path: TablePath, column: str | None, difference: str, hint: str | None = None) -> SchemaDrift:
    """Returns the error for the lake table `path`. Without `hint` it advises to repair the lake table, or to create a new one."""
    advice = f"Repair the lake table, then {tier_call(path)}: the rows stay in the log until then. Or: {new_table_hint(path)}"
    return SchemaDrift(f"the lake table {path} {difference}", hint=hint or advice, table_path=path, column=column)


def _check_options(path: TablePath, layout: TableLayout, schema: StoredSchema) -> None:
    options = schema.options
    if (refused := refused_option(options)) is not None:
        difference = f"has the option {refused.name!r} = {refused.value[:60]!r}, with which Lakeward does not tier"
        raise drift(path, None, difference, _without_option(path, refused))
    bucket = options.get(BUCKET, str(UNAWARE))
    keys = [key.strip() for key in options.get(BUCKET_KEY, "").split(",") if key.strip()]
    required_keys = [key for key in layout.options.get(BUCKET_KEY, "").split(",") if key]
    if bucket != layout.options[BUCKET] or keys != required_keys:
        required = f"{layout.options[BUCKET]} buckets by ({', '.join(required_keys)})"
        raise drift(path, None, f"has {bucket} buckets by ({', '.join(keys)}); its source table needs {required}")
    for relation, lake, source in (
        ("partitioned by", schema.table.partition_keys, layout.partition_keys),
        ("keyed by", schema.table.primary_keys, layout.primary_key),
    ):
        if list(lake) != list(source):
            raise drift(path, None, f"is {relation} ({', '.join(lake)}); its source table is {relation} ({', '.join(source)})")


def _without_option(path: TablePath, option: RefusedOption) -> str:
    """Returns the hint for a lake table with an option that is not allowed."""
    remove = f"Remove the option with Paimon (in Spark: ALTER TABLE ... UNSET TBLPROPERTIES ('{option.name}')), then {tier_call(path)}."
    kept = "The rows stay in the log until then."
    if option.is_removable:
        return f"{remove} {kept}"
    return (
        f"{remove} {kept} If Paimon read, compacted or wrote the table with it, rows may have changed: CALL sys.validate_table('{path}', "
        f"'rows') tells. Then: {new_table_hint(path)}"
    )


def _check_system_column(path: TablePath, column: pa.Field[Any], schema: StoredSchema) -> None:
    if column.name not in schema.columns.names:
        raise drift(path, column.name, f"lacks the column {column.name!r}")
    kind = schema.columns.field(column.name).type
    former = pa.timestamp("us", "UTC") if column.name == TIMESTAMP_COLUMN else None
    if not holds(kind, column.type) and kind != former:  # Fluss before 0.9 stored times of rows in microseconds
        raise drift(path, column.name, f"has the column {column.name!r} as {kind}; it was created as {column.type}")


def _check_unrecorded(table: TableInfo, schema: StoredSchema) -> None:
    """Checks a lake table that does not record the ids of its columns. Without them, only names reveal a change by another program. A
    source without ids only gets new columns.
    """
    has_ids = has_field_ids(table.schema)
    matches = matched_fields(table.schema, schema.numbered, None)
    for column in table.schema:
        name = column.name
        if (name,) not in matches:
            if first_name(column) in schema.former_names:
                raise drift(table.path, name, f"lacks the column {name!r}, which it had before: it was dropped")
        elif not has_ids:
            _check_unchanged(table, column, schema)


def _check_unchanged(table: TableInfo, column: pa.Field[Any], schema: StoredSchema) -> None:
    name, kind, stored = column.name, lake_type(column.name, column.type), schema.columns.field(column.name)
    if not holds(stored.type, kind):
        difference = f"has the column {name!r} as {stored.type}; the source table has it as {kind}"
        raise drift(table.path, name, difference, _misfit_hint(table, schema, name))
    if column.nullable and not stored.nullable:
        raise drift(table.path, name, f"requires values in the column {name!r}, which is nullable in the source table")


def _misfit_hint(table: TableInfo, schema: StoredSchema, path: str) -> str | None:
    """Returns the hint for a column that has another type in the lake than in the source; None for other differences."""
    if path not in table.schema.names or path not in schema.columns.names:
        return None
    kind = lake_type(path, table.schema.field(path).type)
    return None if holds(schema.columns.field(path).type, kind) else _type_hint(table.path, pa.field(path, kind))


def _type_hint(path: TablePath, source: pa.Field[pa.DataType]) -> str:
    """Returns the hint for a column with another type. Paimon accepts each type to which it can cast, but Spark requests only wider
    types.
    """
    return (
        f"Give {source.name!r} the type {source.type} again, with Flink (ALTER TABLE ... MODIFY) or pypaimon "
        f"(SchemaChange.update_column_type), then {tier_call(path)}: Spark's ALTER TABLE only makes types wider. "
        f"The rows stay in the log until then. Or: {keeping_table_hint(path)}"
    )
