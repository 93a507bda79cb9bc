"""Delete files as other engines write them, committed to a `LakeWorld`'s lake table beside Lakeward: no marker, and the tag stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table.update import AddPartitionSpecUpdate, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from support.worlds.lake_world import LakeWorld
from support.worlds.validated import local
from tiering.clock import SystemClock
from tiering.lake.iceberg.commit.staging import FileChanges, SnapshotStager
from tiering.lake.iceberg.reading.view import TAG
from tiering.model.tables import TableInfo


def commit_files(world: LakeWorld, table: TableInfo, files: Sequence[DataFile]) -> None:
    """Commits these files in one snapshot of another writer, all of one partition spec."""
    loaded = world.iceberg(table)
    staged = SnapshotStager(loaded, world.view(table), "foreign", SystemClock()).stage(FileChanges(files, files[0].spec_id), {})
    updates = tuple(update for update in staged.updates if not (isinstance(update, SetSnapshotRefUpdate) and update.ref_name == TAG))
    loaded.catalog.commit_table(loaded, staged.requirements, updates)


def delete_equal(world: LakeWorld, table: TableInfo, rows: pa.Table, *, like: int = 0, spec_id: int | None = None) -> None:
    """Rows equal to one of `rows` in its columns die, in the partition of data file number `like`; with `spec_id` under that spec."""
    loaded = world.iceberg(table)
    ids = [loaded.schema().find_field(name).field_id for name in rows.column_names]
    written = written_file(loaded.location(), rows.rename_columns(rows.column_names), "equality")
    model = _file_number(loaded, like)
    spec = model.spec_id if spec_id is None else spec_id
    partition = model.partition if spec_id is None else Record()
    commit_files(world, table, [described_file(written, rows.num_rows, DataFileContent.EQUALITY_DELETES, spec, partition, ids)])


def delete_at(
    world: LakeWorld, table: TableInfo, positions: Sequence[int], *, like: int = 0, file_format: FileFormat = FileFormat.PARQUET
) -> None:
    """Rows of data file number `like` die by position. With another `file_format` the file only says so."""
    loaded = world.iceberg(table)
    model = _file_number(loaded, like)
    rows = pa.table({"file_path": [model.file_path] * len(positions), "pos": pa.array(positions, pa.int64())})
    written = written_file(loaded.location(), rows, "positions")
    file = described_file(written, rows.num_rows, DataFileContent.POSITION_DELETES, model.spec_id, model.partition, None, file_format)
    commit_files(world, table, [file])


def add_unpartitioned_spec(world: LakeWorld, table: TableInfo) -> int:
    """A partition spec without columns beside the table's own; its id."""
    loaded = world.iceberg(table)
    spec_id = max(loaded.metadata.specs()) + 1
    spec = UNPARTITIONED_PARTITION_SPEC.model_copy(update={"spec_id": spec_id})
    loaded.catalog.commit_table(loaded, (), (AddPartitionSpecUpdate(spec=spec),))
    return spec_id


def _file_number(loaded: Any, number: int) -> DataFile:
    snapshot = loaded.current_snapshot()  # and not a scan: pyiceberg refuses to plan one over equality deletes
    manifests = [manifest for manifest in snapshot.manifests(loaded.io) if manifest.content is ManifestContent.DATA]
    files = [entry.data_file for manifest in manifests for entry in manifest.fetch_manifest_entry(loaded.io)]
    return sorted(files, key=lambda file: (repr(file.partition), -file.record_count))[number]


def written_file(location: str, rows: pa.Table, kind: str) -> Path:
    folder = local(location) / "data"
    file = folder / f"{kind}-{sum(1 for _ in folder.rglob('*'))}.parquet"
    pq.write_table(rows, file)
    return file


def described_file(
    file: Path,
    records: int,
    content: DataFileContent,
    spec_id: int,
    partition: Record,
    equality_ids: list[int] | None,
    file_format: FileFormat = FileFormat.PARQUET,
) -> DataFile:
    data_file = DataFile.from_args(
        content=content,
        file_path=f"file://{file}",
        file_format=file_format,
        partition=partition,
        record_count=records,
        file_size_in_bytes=file.stat().st_size,
        equality_ids=equality_ids,
    )
    data_file.spec_id = spec_id
    return data_file
