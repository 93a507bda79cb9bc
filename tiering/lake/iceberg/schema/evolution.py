"""Changes of a lake table's columns, sort order and partition spec, each in one commit that contains nothing else.

The request goes through `Catalog.commit_table` once, under explicit requirements, like a round's commit (DESIGN 6 step 7): the table's
uuid, its current schema and its last field id, and for a spec the default spec and the last partition field. One of two concurrent changes
is refused. After any error the caller must read the table again, because the request may have landed. Head and tag stay unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from tiering.lake.outside_errors import describe

log = structlog.get_logger(__name__)

LAST_ADDED = -1
"""Iceberg's number for the schema or sort order that the same request adds."""


@dataclass(frozen=True)
class SchemaUpdate:
    """The columns and properties that a lake table shall have. `changes` says in words what the update does; empty = only others.

    `sort_order`, `spec`: the new one, or a former one of the table; None = it stays.
    """

    schema: Schema
    changes: tuple[str, ...]
    properties: Mapping[str, str]
    sort_order: SortOrder | None = None
    spec: PartitionSpec | None = None


def schema_id_of(schema: Schema, metadata: TableMetadata) -> int:
    """Returns the id of a schema in a table: that of an equal one, or the next free id.

    A catalog server may not add a schema that the table has already.
    """
    same = (former.schema_id for former in metadata.schemas if former == schema)
    return next(same, max(former.schema_id for former in metadata.schemas) + 1)


def send_update(catalog: Catalog, table: Table, update: SchemaUpdate) -> str | None:
    """Sends one request. Returns None, or the error as text. The caller must read the table again."""
    requirements, updates = update_request(table.metadata, update)
    try:
        catalog.commit_table(table, requirements, updates)
    except Exception as error:
        why = describe(error)
        log.info("columns could not be changed, or it is not known", lake_table=table.name(), changes=update.changes, error=why)
        return why
    log.info("columns were changed", lake_table=table.name(), changes=update.changes)
    return None


def update_request(metadata: TableMetadata, update: SchemaUpdate) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...]]:
    """Returns requirements and updates."""
    requirements: tuple[TableRequirement, ...] = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertLastAssignedFieldId.model_validate({"last-assigned-field-id": metadata.last_column_id}),
    )
    updates: list[TableUpdate] = []
    schema_id = schema_id_of(update.schema, metadata)
    if all(former.schema_id != schema_id for former in metadata.schemas):
        schema = update.schema.model_copy(update={"schema_id": schema_id})
        updates += [
            AddSchemaUpdate.model_validate({"schema": schema}),
            SetCurrentSchemaUpdate.model_validate({"schema-id": LAST_ADDED}),
        ]
    elif schema_id != metadata.current_schema_id:
        updates.append(SetCurrentSchemaUpdate.model_validate({"schema-id": schema_id}))
    if update.sort_order is not None:
        requirements += (AssertDefaultSortOrderId.model_validate({"default-sort-order-id": metadata.default_sort_order_id}),)
        updates += _sort_order_updates(metadata, update.sort_order)
    if update.spec is not None:
        requirements = (*requirements, *_same_specs(metadata))
        updates += _spec_updates(metadata, update.spec)
    if update.properties:
        updates.append(SetPropertiesUpdate(updates=dict(update.properties)))
    return requirements, tuple(updates)


def _sort_order_updates(metadata: TableMetadata, order: SortOrder) -> tuple[TableUpdate, ...]:
    if metadata.sort_order_by_id(order.order_id) is not None:
        return (SetDefaultSortOrderUpdate.model_validate({"sort-order-id": order.order_id}),)
    return (
        AddSortOrderUpdate.model_validate({"sort-order": order}),
        SetDefaultSortOrderUpdate.model_validate({"sort-order-id": LAST_ADDED}),
    )


def _same_specs(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    return (
        AssertDefaultSpecId.model_validate({"default-spec-id": metadata.default_spec_id}),
        AssertLastAssignedPartitionId.model_validate({"last-assigned-partition-id": metadata.last_partition_id}),
    )


def _spec_updates(metadata: TableMetadata, spec: PartitionSpec) -> list[TableUpdate]:
    if spec.spec_id in metadata.specs():
        return [SetDefaultSpecUpdate.model_validate({"spec-id": spec.spec_id})]
    return [AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate.model_validate({"spec-id": LAST_ADDED})]
