"""The number of a table's rows with a value in a column, from the files' column metrics (Iceberg spec, "Manifests")."""

from __future__ import annotations

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table import Table
from pyiceberg.types import PrimitiveType


def values_of(table: Table, column: str) -> int | None:
    """Returns the number of rows at the head with a value in at least one part of the column, including deleted rows. None = unknown.

    A file that was added under a schema without the column has no value of it.
    """
    schema, metadata = table.schema(), table.metadata
    head = metadata.current_snapshot()
    field = next((field for field in schema.fields if field.name == column), None)
    if field is None or head is None:
        return 0
    leaves = _leaves(schema, field.field_id)
    schemas_without = {former.schema_id for former in metadata.schemas if field.field_id not in former.field_ids}
    added_under = {snapshot.snapshot_id: snapshot.schema_id for snapshot in metadata.snapshots}
    total = 0
    for manifest in head.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.data_file.content is not DataFileContent.DATA:
                continue
            values = _values(entry.data_file, leaves)
            if values is None and added_under.get(entry.snapshot_id or -1) not in schemas_without:
                return None
            total += values or 0
    return total


def _leaves(schema: Schema, field_id: int) -> frozenset[int]:
    """Returns the ids of the primitive fields of a column, which are the fields with metrics."""
    pruned = prune_columns(schema, {field_id}, select_full_types=True)
    return frozenset(leaf for leaf in pruned.field_ids if isinstance(pruned.find_type(leaf), PrimitiveType))


def _values(file: DataFile, leaves: frozenset[int]) -> int | None:
    """Returns the highest number of values in the file over the parts of the column; None if a part has no metrics."""
    counts, nulls = file.value_counts or {}, file.null_value_counts or {}
    if any(leaf not in counts or leaf not in nulls for leaf in leaves):
        return None
    return max((min(counts[leaf] - nulls[leaf], file.record_count) for leaf in leaves), default=0)
