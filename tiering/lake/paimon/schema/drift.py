"""Checks whether a Paimon table still fits its source table, and finds the source columns that it lacks.

Columns are matched by name; the lake table may have them in any order. Readers find values by field id, which Lakeward never changes.
"""

from __future__ import annotations

import pyarrow as pa

from tiering.errors import SchemaDrift
from tiering.lake.paimon.schema.allowed_options import RefusedOption, refused_option
from tiering.lake.paimon.schema.layout import BUCKET, BUCKET_KEY, UNAWARE, TableLayout, table_layout
from tiering.lake.paimon.schema.stored_schema import StoredSchema
from tiering.lake.paimon.schema.types import holds
from tiering.lake.rules.hints import keeping_table_hint, new_table_hint, tier_call
from tiering.model.tables import SYSTEM_COLUMNS, TIMESTAMP_COLUMN, TableInfo, TablePath


def check_drift(table: TableInfo, schema: StoredSchema) -> tuple[pa.Field[pa.DataType], ...]:
    """Returns the source columns that have to be added to this lake table; none if `table`'s rows fit it already.

    Raises SchemaDrift naming the first column or option that was changed by another program.
    """
    layout = table_layout(table, schema.layout)
    _check_options(table.path, layout, schema)
    for name in SYSTEM_COLUMNS:
        if schema.layout.has_row_offsets and name not in schema.columns.names:
            raise drift(table.path, name, f"lacks the column {name!r}")
    for column in layout.columns:
        if column.name in schema.columns.names:
            _check_column(table.path, column, schema.columns.field(column.name))
    for name in schema.columns.names:
        if name not in layout.columns.names:
            raise drift(table.path, name, f"has the column {name!r}, which the source table does not have")
    missing = tuple(column for column in layout.columns if column.name not in schema.columns.names)
    for column in missing:
        _check_new(table.path, column, schema)
    return missing


def check_written(path: TablePath, written: StoredSchema, current: StoredSchema) -> None:
    """Raises SchemaDrift unless files written for one schema may be added to the table with another schema."""
    for column in written.columns:
        name = column.name
        if current.field_ids.get(name) != written.field_ids[name]:
            raise drift(path, name, f"lost or renamed the column {name!r} while a round wrote files for it")
        if current.columns.field(name).type != column.type:
            raise drift(path, name, f"got another type of the column {name!r} while a round wrote files for it")


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


def _check_column(path: TablePath, source: pa.Field[pa.DataType], lake: pa.Field[pa.DataType]) -> None:
    former = pa.timestamp("us", "UTC") if source.name == TIMESTAMP_COLUMN else None
    if not holds(lake.type, source.type) and lake.type != former:  # Fluss before 0.9 stored times of rows in microseconds
        difference = f"has the column {source.name!r} as {lake.type}; the source table has it as {source.type}"
        raise drift(path, source.name, difference, _type_hint(path, source))
    if source.nullable and not lake.nullable and source.name not in SYSTEM_COLUMNS:
        raise drift(path, source.name, f"requires values in the column {source.name!r}, which is nullable in the source table")


def _type_hint(path: TablePath, source: pa.Field[pa.DataType]) -> str:
    """Returns the hint for a column with another type. Paimon accepts each type to which it can cast, but Spark requests only wider
    types.
    """
    return (
        f"Give {source.name!r} the type {source.type} again, with Flink (ALTER TABLE ... MODIFY) or pypaimon "
        f"(SchemaChange.update_column_type), then {tier_call(path)}: Spark's ALTER TABLE only makes types wider. "
        f"The rows stay in the log until then. Or: {keeping_table_hint(path)}"
    )


def _check_new(path: TablePath, column: pa.Field[pa.DataType], schema: StoredSchema) -> None:
    if any(column.name in names for names in schema.names):
        raise drift(path, column.name, f"lacks the column {column.name!r}, which it had before: it was dropped")
    if not column.nullable:
        difference = f"lacks the column {column.name!r}, which cannot be added: it is NOT NULL, and the rows before it have no value"
        raise drift(path, column.name, difference)
