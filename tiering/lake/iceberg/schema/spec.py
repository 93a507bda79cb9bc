"""The partition spec of a lake table follows the option `table.datalake.partition` of its source table. Pure.

A spec has Lakeward's own fields first, which never change, and then those of the option. Fields refer to columns by their ids, so a renamed
column changes no spec. The property PARTITION_RECORD names the spec that Lakeward set last. If the table has another one, then another
program changed it, which is a drift.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from tiering.lake.column_names import folded_name
from tiering.lake.iceberg.schema.drift import drift, other_spec, spec_text
from tiering.lake.iceberg.schema.evolution import SchemaUpdate
from tiering.lake.iceberg.schema.layout import (
    FIRST_SPEC,
    PARTITION_RECORD,
    TableLayout,
    bucket_keys,
    layout_of_table,
    own_fields,
    partition_entries,
    partition_record,
    recorded_partition,
    transform_of,
)
from tiering.lake.schema.file_order import PartitionEntry, entries_text, entry_of
from tiering.model.tables import TableInfo


def spec_columns(metadata: TableMetadata) -> Collection[int]:
    """Returns the ids of the columns that a partition spec of the table names. They stay in the lake table, because Iceberg's Java readers
    cannot open a table in which a column of any of its specs is missing."""
    return {field.source_id for spec in metadata.partition_specs for field in spec.fields}


def check_own_fields(table: TableInfo, expected: TableLayout, metadata: TableMetadata) -> None:
    """Raises SchemaDrift if the lake table's spec does not begin with the fields that partitions and buckets of the source need."""
    own = own_fields(table, layout_of_table(metadata))
    if spec_text(metadata.schema(), metadata.spec().fields[:own]) != spec_text(expected.schema, expected.spec.fields[:own]):
        raise other_spec(table, expected, metadata)


def unnamed_entries(table: TableInfo, metadata: TableMetadata) -> Sequence[str]:
    """Returns the partition fields after Lakeward's own that the table's option does not name, in its form: `day(ts)`.

    There is none if the option names exactly these fields, or if the first fields are not Lakeward's own.
    """
    layout, schema, fields = layout_of_table(metadata), metadata.schema(), metadata.spec().fields
    columns = [schema.find_column_name(field.source_id) or field.name for field in fields]
    own = own_fields(table, layout)
    if columns[:own] != [*table.partition_keys, *bucket_keys(table)][:own]:
        return ()
    further = zip(fields[own:], columns[own:], strict=True)
    texts = [str(entry_of(str(field.transform), column) or f"{field.transform}({column})") for field, column in further]
    return () if texts == [str(entry) for entry in partition_entries(table, layout)] else texts


def follow_spec(table: TableInfo, expected: TableLayout, metadata: TableMetadata, schema: Schema) -> SchemaUpdate | None:
    """Returns the change to the spec of the table's option; None = the lake table has it. `schema`: the columns that it shall have.

    Raises SchemaDrift for a spec that another program changed, and for a column with the name of a partition field of another column.
    """
    layout, spec = layout_of_table(metadata), metadata.spec()
    own, entries = own_fields(table, layout), partition_entries(table, layout)
    recorded = recorded_partition(metadata.properties)
    has_entries = _has_entries(spec.fields[own:], entries, schema)
    if not has_entries and spec.spec_id != (FIRST_SPEC if recorded is None else recorded[0]):
        raise other_spec(table, expected, metadata)
    _check_names(table, metadata, schema)
    target = spec if has_entries else _spec_with(metadata, spec.fields[:own], entries, schema)
    if target.spec_id == spec.spec_id and recorded == ((spec.spec_id, own) if entries or recorded is not None else None):
        return None
    changes = () if has_entries else (f"partition by {entries_text(entries)}",)
    properties = {PARTITION_RECORD: partition_record(target.spec_id, own)}
    return SchemaUpdate(metadata.schema(), changes, properties, spec=None if has_entries else target)


def _has_entries(fields: Sequence[PartitionField], entries: Sequence[PartitionEntry], schema: Schema) -> bool:
    columns = [schema.find_field(entry.column).field_id for entry in entries]
    target = [(column, str(transform_of(entry))) for column, entry in zip(columns, entries, strict=True)]
    return [(field.source_id, str(field.transform)) for field in fields] == target


def _spec_with(metadata: TableMetadata, own: Sequence[PartitionField], entries: Sequence[PartitionEntry], schema: Schema) -> PartitionSpec:
    """Returns the former spec with these fields, or a new one. A field of a former spec keeps its id (spec, "Partition Evolution")."""
    former = {(field.source_id, str(field.transform)): field for spec in metadata.partition_specs for field in spec.fields}
    ids = itertools.count((metadata.last_partition_id or PARTITION_FIELD_ID_START - 1) + 1)
    fields, names = list(own), {folded_name(name) for name in schema.column_names} | {folded_name(field.name) for field in own}
    for entry in entries:
        column, transform = schema.find_field(entry.column).field_id, transform_of(entry)
        field = former.get((column, str(transform)))
        if field is None:
            field = PartitionField(column, next(ids), transform, _free_name(entry, names))
        names.add(folded_name(field.name))
        fields.append(field)
    for spec in metadata.partition_specs:
        if list(spec.fields) == fields:
            return spec
    return PartitionSpec(*fields, spec_id=max(spec.spec_id for spec in metadata.partition_specs) + 1)


def _free_name(entry: PartitionEntry, names: Collection[str]) -> str:
    """Returns the name of a new field. The lake table may still have a dropped column of that name."""
    numbered = (f"{entry.field_name}_{number}" for number in itertools.count(2))
    names = set(names) - {folded_name(entry.column)} if entry.field_name == entry.column else names
    return next(name for name in (entry.field_name, *itertools.islice(numbered, 1_000)) if folded_name(name) not in names)


def _check_names(table: TableInfo, metadata: TableMetadata, schema: Schema) -> None:
    """Raises SchemaDrift for a column with the name of a partition field of another column, in any spec: Iceberg's Java readers could not
    open the table."""
    columns: Mapping[str, int] = {field.name: field.field_id for field in schema.fields}
    for field in (field for spec in metadata.partition_specs for field in spec.fields):
        if columns.get(field.name, field.source_id) != field.source_id:
            text = f"has or had a partition field {field.name!r}, so it cannot get the column {field.name!r} of the source table"
            raise drift(table.path, field.name, text, "Rename the column of the source table. The rows stay in the log until then.")
