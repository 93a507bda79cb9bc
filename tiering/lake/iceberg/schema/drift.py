"""Checks whether a lake table still fits its source table, and which new columns it lacks, by the names of the columns. Pure.

This is the whole check for a source without field ids (`schema.following` checks the others). The order of the columns and their field ids
belong to the lake. But readers find values by field id: if a name got another id since the last round, the values under the former id are
hidden. A column that the lake lacks is new at the source if the lake table never had it. Iceberg keeps a table's former schemas (spec,
"Schemas"), and its `last-column-id` shows whether columns were dropped that no schema names any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyiceberg.exceptions import ResolveError
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema, index_by_id, index_by_name, promote
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, ListType, LongType, MapType, NestedField, StructType

from tiering.errors import SchemaDrift
from tiering.lake.iceberg.reading.view import TAG
from tiering.lake.iceberg.schema.layout import FORMAT_VERSION, TableLayout, layout_of_table, table_layout
from tiering.lake.rules.hints import keeping_table_hint, new_table_hint, tier_call
from tiering.model.tables import SYSTEM_COLUMNS, TableInfo, TablePath


def missing_columns(table: TableInfo, metadata: TableMetadata) -> tuple[pa.Field[pa.DataType], ...]:
    """Returns the source columns that must be added to this lake table; none if `table`'s rows fit it as it is.

    Raises SchemaDrift that names the first column that another writer added, dropped, renamed or retyped.
    """
    expected = check_form(table, metadata)
    schema = metadata.schema()
    expected_fields = {field.name: field for field in expected.schema.fields}
    lake_fields = {field.name: field for field in schema.fields}
    check_ids(table, metadata)
    for name, field in expected_fields.items():
        if name in lake_fields:
            check_column(table, field, lake_fields[name], schema)
    for field in schema.fields:
        if field.name not in expected_fields:
            raise extra(table, field, expected_fields.keys() - lake_fields.keys(), metadata)
    check_spec(table, expected, metadata)
    missing = tuple(field for field in table.schema if field.name not in lake_fields)
    for column in missing:
        check_new(table, column, metadata)
    return missing


def check_form(table: TableInfo, metadata: TableMetadata) -> TableLayout:
    """Returns the parts with which the lake table would be created now, in its layout.

    Raises SchemaDrift for another format version and for a system column that is missing.
    """
    layout = layout_of_table(metadata)
    expected = table_layout(table, layout)
    if metadata.format_version != FORMAT_VERSION:
        raise drift(table.path, None, f"has format version {metadata.format_version}; Lakeward writes version {FORMAT_VERSION}")
    for name in SYSTEM_COLUMNS:
        if layout.has_row_offsets and name not in metadata.schema().column_names:
            raise drift(table.path, name, f"lacks the column {name!r}")
    return expected


def check_written(path: TablePath, written: Schema, current: Schema) -> None:
    """Raises SchemaDrift if files that were written for one schema of a lake table may not be added under another program's schema.

    Readers find a column by its field id. If a column was dropped and recreated, the values of the files would be lost. A schema of
    Lakeward's needs no check: it follows the source, and readers find renamed and widened columns by their ids.
    """
    fields = {field.field_id: field for field in current.fields}
    for field in written.fields:
        now = fields.pop(field.field_id, None)
        if now is None or now.name != field.name:
            raise drift(path, field.name, f"lost or renamed the column {field.name!r} while a round wrote files for it")
        if (difference := misfit(now, field)) is not None:
            raise drift(path, field.name, f"was changed while a round wrote files for it: {difference}", _lasting_hint(path, now, field))
    for extra in fields.values():
        if extra.required:
            raise drift(path, extra.name, f"got the required column {extra.name!r} while a round wrote files without it")


def drift(path: TablePath, column: str | None, difference: str, hint: str | None = None, **mend: str) -> SchemaDrift:
    """Returns the error for the lake table `path`. The default hint is to repair the lake table, or to let Lakeward create a new one.

    A lake table of a former source table of that name, with other columns or partitions, cannot be repaired.
    `mend`: the ids of `DriftCheck.check_fit`.
    """
    advice = f"Repair the lake table, then {tier_call(path)}: the rows stay in the log until then. Or: {new_table_hint(path)}"
    text = f"the lake table {path} {difference}"
    return SchemaDrift(text, hint=advice if hint is None else hint, table_path=path, column=column, **mend)


def check_ids(table: TableInfo, metadata: TableMetadata) -> None:
    """Raises SchemaDrift for a name with another field id than at the last round, whose snapshot names its schema (Iceberg spec)."""
    tag = metadata.refs.get(TAG)
    tiered = None if tag is None else metadata.snapshot_by_id(tag.snapshot_id)
    schema_id = None if tiered is None else tiered.schema_id
    now = index_by_name(metadata.schema())
    for former in metadata.schemas:
        if former.schema_id != schema_id:
            continue
        for name, field_id in index_by_name(former).items():
            if now.get(name, field_id) != field_id:
                raise drift(table.path, name.split(".")[0], another_column(name))


def another_column(name: str) -> str:
    """Returns the difference of a lake table in which a name has another field id than before."""
    return f"has another column {name!r} than the one of the last round, so readers no longer find that column's values"


def check_column(table: TableInfo, expected_field: NestedField, lake_field: NestedField, schema: Schema) -> None:
    """Raises SchemaDrift if rows of the column `expected_field` do not fit the lake's column `lake_field`."""
    name = expected_field.name
    if (difference := misfit(lake_field, expected_field)) is not None:
        raise drift(
            table.path, name, difference, _lasting_hint(table.path, lake_field, expected_field), **_mend(lake_field, expected_field, schema)
        )
    if name in SYSTEM_COLUMNS and lake_field.optional:
        raise drift(table.path, name, f"has the system column {name!r} as nullable, but it must be required")


def _lasting_hint(path: TablePath, lake_field: NestedField, expected_field: NestedField) -> str | None:
    """Returns the hint if no statement can give the column its source's type, because Iceberg only widens types; None otherwise."""
    if not _is_lasting(lake_field.field_type, expected_field.field_type):
        return None
    return (
        f"No statement gives {lake_field.name!r} that type again: Iceberg only widens. The rows stay in the log. {keeping_table_hint(path)}"
    )


def _is_lasting(lake: IcebergType, source: IcebergType) -> bool:
    """Whether a type, or a type within it, cannot be changed to that of the source (Iceberg spec, "Schema Evolution")."""
    if isinstance(lake, StructType) and isinstance(source, StructType):
        source_types = {field.name: field.field_type for field in source.fields}
        return any(_is_lasting(field.field_type, source_types[field.name]) for field in lake.fields if field.name in source_types)
    if isinstance(lake, ListType) and isinstance(source, ListType):
        return _is_lasting(lake.element_type, source.element_type)
    if isinstance(lake, MapType) and isinstance(source, MapType):
        return _is_lasting(lake.key_type, source.key_type) or _is_lasting(lake.value_type, source.value_type)
    if lake == source:
        return False
    try:
        return promote(lake, source) != source
    except ResolveError:
        return True


def _mend(lake_field: NestedField, expected_field: NestedField, schema: Schema) -> dict[str, str]:
    """Returns what makes a column fit without changing a value; empty if nothing does (Iceberg spec, "Schema Evolution")."""
    name = lake_field.name
    if lake_field.required and expected_field.optional:
        return {} if _is_identifier(schema, lake_field) else {"mend": "drop_not_null", "lake_column": name}
    try:
        is_wider = promote(lake_field.field_type, expected_field.field_type) != lake_field.field_type
    except ResolveError:
        return {}
    return {"mend": "change_type", "lake_column": name, "mended_as": _spark_type(expected_field.field_type)} if is_wider else {}


def _spark_type(kind: IcebergType) -> str:
    """Returns the name in Spark of a type to which another type can be promoted."""
    return "bigint" if isinstance(kind, LongType) else str(kind)


def extra(table: TableInfo, field: NestedField, missing: set[str], metadata: TableMetadata) -> SchemaDrift:
    """Returns the error for a column that only the lake has. It is a renamed one if its field id had a missing column's name before."""
    for former in metadata.schemas:
        before = index_by_id(former).get(field.field_id)
        if before is not None and before.name in missing:
            text = f"has the column {before.name!r} renamed to {field.name!r}"
            return drift(table.path, before.name, text, mend="rename_column", lake_column=field.name, mended_as=before.name)
    text = f"has the column {field.name!r}, which the source table does not have"
    mend = {} if _is_identifier(metadata.schema(), field) else {"mend": "drop_column", "lake_column": field.name}
    return drift(table.path, field.name, text, **mend)


def _is_identifier(schema: Schema, field: NestedField) -> bool:
    """Whether the column is part of the lake table's key, which no engine drops or makes nullable (Iceberg spec, "Identifier Field IDs").
    Such a lake table was created for a source table with another key."""
    return field.field_id in schema.identifier_field_ids


def check_new(table: TableInfo, column: pa.Field[pa.DataType], metadata: TableMetadata) -> None:
    """Raises SchemaDrift if the column, which the lake table lacks, cannot be added, or may have been there before."""
    name = column.name
    if any(field.name == name for schema in metadata.schemas for field in schema.fields):
        raise drift(table.path, name, f"lacks the column {name!r}, which it had before: it was dropped")
    check_nullable(table.path, column)
    known_ids = {field_id for schema in metadata.schemas for field_id in index_by_id(schema)}
    if not known_ids.issuperset(range(1, metadata.last_column_id + 1)):
        raise drift(
            table.path,
            name,
            f"lacks the column {name!r}, and does not show whether it had the column before: columns were dropped and its former "
            "schemas cleaned up",
            f"Add it to the lake table as a nullable column, then {tier_call(table.path)}. The rows stay in the log until then.",
        )


def check_nullable(path: TablePath, column: pa.Field[pa.DataType]) -> None:
    """Raises SchemaDrift for a column that cannot be added because it is NOT NULL."""
    if not column.nullable:
        raise drift(
            path,
            column.name,
            f"lacks the column {column.name!r}, which cannot be added: it is NOT NULL, and the rows before it have no value",
            f"Only a nullable column can be added to a table: the rows stay in the log. {new_table_hint(path)}",
        )


def check_spec(table: TableInfo, expected: TableLayout, metadata: TableMetadata) -> None:
    """Raises SchemaDrift if the lake table has another partition spec."""
    if spec_text(metadata.schema(), metadata.spec().fields) != spec_text(expected.schema, expected.spec.fields):
        raise other_spec(table, expected, metadata)


def other_spec(table: TableInfo, expected: TableLayout, metadata: TableMetadata) -> SchemaDrift:
    """Returns the error for a partition spec that another program changed."""
    lake_spec, expected_spec = spec_text(metadata.schema(), metadata.spec().fields), spec_text(expected.schema, expected.spec.fields)
    return drift(table.path, None, f"is partitioned by [{lake_spec}]; its source table's buckets need [{expected_spec}]")


def spec_text(schema: Schema, fields: Iterable[PartitionField]) -> str:
    """Returns the fields of a partition spec as text."""
    return ", ".join(f"{field.name}: {field.transform}({schema.find_column_name(field.source_id)})" for field in fields)


def added(schema: Schema, columns: Sequence[NestedField]) -> Schema:
    """Returns `schema` with `columns` before its first system column, or at the end."""
    system_columns = (position for position, field in enumerate(schema.fields) if field.name in SYSTEM_COLUMNS)
    place = min(system_columns, default=len(schema.fields))
    fields = (*schema.fields[:place], *columns, *schema.fields[place:])
    return Schema(*fields, schema_id=schema.schema_id + 1, identifier_field_ids=schema.identifier_field_ids)


def misfit(lake: NestedField, source: NestedField) -> str | None:
    """Returns why rows of the column `source` do not fit the lake column `lake`; None if they do.

    They fit if both have the same type except for field ids, and no required lake field gets a nullable value. The text begins with a verb
    whose subject is the lake table, and names a nested field by its path: `address.city`.
    """
    return _field_misfit(lake, source, source.name)


def _field_misfit(lake: NestedField, source: NestedField, path: str) -> str | None:
    if lake.required and source.optional:
        return f"requires values in the column {path!r}, which is nullable in the source table"
    return _type_misfit(lake.field_type, source.field_type, path)


def _type_misfit(lake: IcebergType, source: IcebergType, path: str) -> str | None:
    if isinstance(lake, StructType) and isinstance(source, StructType):
        return _struct_misfit(lake, source, path)
    if isinstance(lake, ListType) and isinstance(source, ListType):
        return _field_misfit(lake.element_field, source.element_field, f"{path}.element")
    if isinstance(lake, MapType) and isinstance(source, MapType):
        return _type_misfit(lake.key_type, source.key_type, f"{path}.key") or _field_misfit(
            lake.value_field, source.value_field, f"{path}.value"
        )
    return None if lake == source else f"has the column {path!r} as {lake}; the source table has it as {source}"


def _struct_misfit(lake: StructType, source: StructType, path: str) -> str | None:
    lake_fields = {field.name: field for field in lake.fields}
    for field in source.fields:
        inner = f"{path}.{field.name}"
        if field.name not in lake_fields:
            return f"lacks the field {inner!r}"
        if (difference := _field_misfit(lake_fields.pop(field.name), field, inner)) is not None:
            return difference
    for name in lake_fields:
        return f"has the field {path + '.' + name!r}, which the source table does not have"
    names = [field.name for field in source.fields]
    if [field.name for field in lake.fields] != names:
        return f"has the fields of the column {path!r} in another order; the source table has them as ({', '.join(names)})"
    return None
