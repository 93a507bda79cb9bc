"""Measures an Iceberg table from its metadata: its health, its rows by partition, and its rows with a value in a column."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import DateType, PrimitiveType

from tiering.lake.health.measure import REST_MS, FilePlace, LakeMeasure, file_totals
from tiering.lake.iceberg.primary_key.bucket_files import live_entries, partition_of
from tiering.lake.iceberg.reading.stored_files import metadata_files
from tiering.lake.iceberg.schema.layout import own_spec_fields, target_file_bytes
from tiering.lake.iceberg.schema.partition_values import PartitionValue, value_text
from tiering.lake.iceberg_options import allowed_properties
from tiering.lake.rules.upkeep.small_files import reachable_bytes
from tiering.model.tables import BUCKET_COLUMN, PARTITION_SEPARATOR, TableInfo


def measure(table: TableInfo, loaded: Table, head: int | None) -> LakeMeasure:
    """Returns the measures of the table (`MeasuredLake.measure`). Raises the errors of catalog and storage."""
    target = target_file_bytes(table, allowed_properties(loaded.metadata.properties))
    reachable = reachable_bytes(target, table.freshness_ms)
    snapshot = None if head is None else loaded.snapshot_by_id(head)
    manifests = [] if snapshot is None else snapshot.manifests(loaded.io)
    buckets = {spec_id: _buckets(table, loaded, own_spec_fields(loaded.metadata, spec_id)) for spec_id in loaded.specs()}
    places: dict[PartitionValue, FilePlace] = {}
    newest: dict[PartitionValue, int] = defaultdict(int)
    for manifest in manifests:
        for entry in manifest.fetch_manifest_entry(loaded.io, discard_deleted=True):
            file, spec_id = entry.data_file, manifest.partition_spec_id
            key = (spec_id, *partition_of(file))
            if (place := places.get(key)) is None:
                place = places[key] = FilePlace(reachable, buckets[spec_id])
            _count(place, file)
            newest[key] = max(newest[key], entry.sequence_number or 0)
    for key, place in places.items():
        place.is_at_rest = snapshot is not None and snapshot.timestamp_ms - _latest_ms(loaded, snapshot, newest[key]) >= REST_MS
    sizes = [file.size_bytes for file in metadata_files(loaded)]
    times = [snapshot.timestamp_ms for snapshot in loaded.metadata.snapshots]
    return LakeMeasure(
        files=file_totals(places.values(), target),
        snapshots=len(times),
        oldest_snapshot_time=datetime.fromtimestamp(min(times) / 1_000, UTC) if times else None,
        manifests=len(manifests),
        metadata_files=len(sizes),
        metadata_bytes=sum(sizes),
        columns=schema_to_pyarrow(loaded.schema()),
    )


def _latest_ms(loaded: Table, head: Snapshot, sequence_number: int) -> int:
    """Returns an upper bound of the time of the commit with this sequence number, whose snapshot may have expired."""
    later = [snapshot.timestamp_ms for snapshot in loaded.metadata.snapshots if (snapshot.sequence_number or 0) >= sequence_number]
    return min(later, default=head.timestamp_ms)


def _buckets(table: TableInfo, loaded: Table, fields: Sequence[PartitionField]) -> int:
    """Returns how many buckets of the source share the files of a partition with these fields: one if they have the bucket."""
    schema = loaded.schema()
    names = {schema.find_column_name(field.source_id) for field in fields}
    is_bucketed = BUCKET_COLUMN in names or any(isinstance(field.transform, BucketTransform) for field in fields)
    return 1 if is_bucketed else table.bucket_count


def _count(place: FilePlace, file: DataFile) -> None:
    """Counts a file. An equality delete may delete any number of rows."""
    if file.content is DataFileContent.DATA:
        place.add_data_file(file.file_size_in_bytes, file.record_count)
    else:
        place.add_delete_file(file.record_count if file.content is DataFileContent.POSITION_DELETES else None)


def partition_rows(table: TableInfo, loaded: Table, snapshot_id: int) -> Mapping[str | None, int]:
    """Returns rows by partition name, including deleted ones. The key None is for files whose partition spec does not tell the name."""
    schema = loaded.schema()
    rows = Counter[str | None]()
    places = {
        (spec_id, schema.find_column_name(field.source_id)): place
        for spec_id, spec in loaded.specs().items()
        for place, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform)
    }
    are_dates = [isinstance(schema.find_field(key).field_type, DateType) for key in table.partition_keys]
    for entry in live_entries(loaded, snapshot_id):
        file = entry.data_file
        if file.content is DataFileContent.DATA:
            rows[_name(file, [places.get((file.spec_id, key)) for key in table.partition_keys], are_dates)] += file.record_count
    return rows


def _name(file: DataFile, places: list[int | None], are_dates: list[bool]) -> str | None:
    texts = []
    for place, is_date in zip(places, are_dates, strict=True):
        value = None if place is None else file.partition[place]
        if value is None:
            return None
        texts.append(value_text(value, is_date=is_date))
    return PARTITION_SEPARATOR.join(texts)


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
    for entry in live_entries(table, head.snapshot_id):
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
