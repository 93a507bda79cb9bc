"""The live files of buckets, read from a snapshot's manifests (Iceberg spec, "Scan Planning")."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table

from tiering.lake.iceberg.errors import lake_border
from tiering.lake.iceberg.primary_key.bucket_files import BucketBase, StandingFile
from tiering.lake.iceberg.schema.drift import drift
from tiering.model.tables import TablePath

PartitionValue = tuple[int | str, ...]

_HINT = (
    "Rewrite them (in Spark: CALL <lake catalog>.system.rewrite_data_files), then CALL sys.tier_table. The rows stay in the log until then."
)


def live_buckets(table: Table, path: TablePath, snapshot_id: int, wanted: Collection[PartitionValue]) -> dict[PartitionValue, BucketBase]:
    """What stands in the `wanted` partitions of the table's current spec; those in which nothing does are left out.

    Raises SchemaDrift for a file that cannot be looked into: of another partition spec, or not Parquet. LakeUnavailable.
    """
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    found: dict[PartitionValue, dict[DataFileContent, list[StandingFile]]] = defaultdict(lambda: defaultdict(list))
    if snapshot is None:
        return {}
    with lake_border(f"read the manifests of {path}", table_path=path):
        for manifest in snapshot.manifests(table.io):
            if not (manifest.has_added_files() or manifest.has_existing_files()):
                continue
            if manifest.partition_spec_id != table.metadata.default_spec_id:
                raise drift(path, None, "holds files of a former partition spec, whose buckets cannot be told", _HINT)
            for entry in manifest.fetch_manifest_entry(table.io):
                file = entry.data_file
                partition = partition_of(file)
                if partition in wanted:
                    found[partition][file.content].append(_standing(path, file))
    return {partition: _base(snapshot_id, files) for partition, files in found.items()}


def partition_of(file: DataFile) -> PartitionValue:
    """The partition value of a file, as `partition.partition_values` has it."""
    return tuple(file.partition[index] for index in range(len(file.partition)))


def _standing(path: TablePath, file: DataFile) -> StandingFile:
    if file.file_format is not FileFormat.PARQUET and file.content is not DataFileContent.EQUALITY_DELETES:
        raise drift(
            path, None, f"holds the {file.file_format.value} file {file.file_path}; the rows of a key are looked up in Parquet", _HINT
        )
    return StandingFile(file.file_path, file.record_count, file.file_size_in_bytes)


def _base(snapshot_id: int, files: dict[DataFileContent, list[StandingFile]]) -> BucketBase:
    # By location: deletes are written in the order of the paths that they name.
    data, deletes, equality = (
        tuple(sorted(files[content], key=lambda one: one.location))
        for content in (DataFileContent.DATA, DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES)
    )
    return BucketBase(snapshot_id, data, deletes, equality)
