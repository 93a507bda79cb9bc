"""Adds columns that are new at the source to a lake table, in one commit of its own that contains nothing else.

The request goes through `Catalog.commit_table` once, under explicit requirements, like a round's commit (DESIGN 6 step 7): the table's
uuid, its current schema and its last field id. Of two concurrent additions of a column one is refused. After any error the caller must read
the table again, because the request may have landed. Head and tag stay unchanged.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pyarrow as pa
import structlog
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.types import NestedField

from tiering.lake.iceberg.schema.drift import added
from tiering.lake.iceberg.schema.types import iceberg_type
from tiering.lake.outside_errors import describe

log = structlog.get_logger(__name__)

LAST_ADDED = -1
"""Iceberg's number for the schema that the same request adds."""


def send_new_columns(catalog: Catalog, table: Table, columns: Sequence[pa.Field[pa.DataType]]) -> str | None:
    """Sends one request that adds `columns` as nullable. Returns None, or the error as text. The caller must read the table again."""
    requirements, updates = new_columns_request(table.metadata, columns)
    names = [column.name for column in columns]
    try:
        catalog.commit_table(table, requirements, updates)
    except Exception as error:
        why = describe(error)
        log.info("columns could not be added, or it is not known", lake_table=table.name(), columns=names, error=why)
        return why
    log.info("columns were added", lake_table=table.name(), columns=names)
    return None


def new_columns_request(
    metadata: TableMetadata, columns: Sequence[pa.Field[pa.DataType]]
) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """Returns requirements and updates. New field ids follow the last id that was ever assigned, including those of nested fields."""
    ids = itertools.count(metadata.last_column_id + 1)
    fields = [
        NestedField(next(ids), column.name, iceberg_type(column.name, column.type, lambda: next(ids)), required=False) for column in columns
    ]
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertLastAssignedFieldId.model_validate({"last-assigned-field-id": metadata.last_column_id}),
    )
    updates = (
        AddSchemaUpdate.model_validate({"schema": added(metadata.schema(), fields)}),
        SetCurrentSchemaUpdate.model_validate({"schema-id": LAST_ADDED}),
    )
    return requirements, updates
