"""Which files have columns of now: those of other schemas are left alone by upkeep."""

from __future__ import annotations

from tiering.lake.paimon.reading.loading import LoadedTable, opened_table
from tiering.lake.paimon.schema.stored_schema import read_schema


def fitting_schemas(loaded: LoadedTable) -> set[int]:
    """Ids of the schemas whose columns are columns of now, with the same types. Raises what the storage raises."""
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
