"""Measures an Iceberg table's health from its metadata: the head's manifests, and the files in the metadata folder."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import BucketTransform

from tiering.lake.health.measure import REST_MS, FilePlace, LakeMeasure, file_totals
from tiering.lake.iceberg.reading.stored_files import metadata_files
from tiering.lake.iceberg.schema.layout import target_file_bytes
from tiering.lake.iceberg_options import allowed_properties
from tiering.lake.rules.upkeep.merge_budgets import reachable_bytes
from tiering.model.tables import BUCKET_COLUMN, TableInfo


def measure(table: TableInfo, loaded: Table, head: int | None) -> LakeMeasure:
    """Returns the measures of the table (`MeasuredLake.measure`). Raises the errors of catalog and storage."""
    target = target_file_bytes(table, allowed_properties(loaded.metadata.properties))
    reachable = reachable_bytes(target, table.freshness_ms)
    snapshot = None if head is None else loaded.snapshot_by_id(head)
    manifests = [] if snapshot is None else snapshot.manifests(loaded.io)
    buckets = {spec_id: _buckets(table, loaded, spec) for spec_id, spec in loaded.specs().items()}
    places: dict[tuple[object, ...], FilePlace] = {}
    newest: dict[tuple[object, ...], int] = defaultdict(int)
    for manifest in manifests:
        for entry in manifest.fetch_manifest_entry(loaded.io, discard_deleted=True):
            file, spec_id = entry.data_file, manifest.partition_spec_id
            key = (spec_id, *(file.partition[index] for index in range(len(file.partition))))
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
    )


def _latest_ms(loaded: Table, head: Snapshot, sequence_number: int) -> int:
    """Returns an upper bound of the time of the commit with this sequence number, whose snapshot may have expired."""
    later = [snapshot.timestamp_ms for snapshot in loaded.metadata.snapshots if (snapshot.sequence_number or 0) >= sequence_number]
    return min(later, default=head.timestamp_ms)


def _buckets(table: TableInfo, loaded: Table, spec: PartitionSpec) -> int:
    """Returns how many buckets of the source share the files of a partition of `spec`: one if the spec has the bucket."""
    schema = loaded.schema()
    names = {schema.find_column_name(field.source_id) for field in spec.fields}
    is_bucketed = BUCKET_COLUMN in names or any(isinstance(field.transform, BucketTransform) for field in spec.fields)
    return 1 if is_bucketed else table.bucket_count


def _count(place: FilePlace, file: DataFile) -> None:
    """Counts a file. An equality delete may delete any number of rows."""
    if file.content is DataFileContent.DATA:
        place.add_data_file(file.file_size_in_bytes, file.record_count)
    else:
        place.add_delete_file(file.record_count if file.content is DataFileContent.POSITION_DELETES else None)
