"""Finds the schemas that fit the present columns. Upkeep does not rewrite files of other schemas."""

from __future__ import annotations

from tiering.lake.paimon.reading.loading import LoadedTable, opened_table
from tiering.lake.paimon.schema.stored_schema import read_schema


def fitting_schemas(loaded: LoadedTable) -> set[int]:
    """Returns the ids of the schemas whose columns all exist at present with the same types. Raises the errors of the storage."""
    now, fitting = loaded.schema, set[int]()
    with opened_table(loaded) as folder:
        for schema_id in range(now.schema_id + 1):
            schema = now if schema_id == now.schema_id else read_schema(folder, schema_id)
            if schema is not None and all(
                now.field_ids.get(column.name) == schema.field_ids[column.name] and now.columns.field(column.name).type == column.type
                for column in schema.columns
            ):
                fitting.add(schema_id)
    return fitting
