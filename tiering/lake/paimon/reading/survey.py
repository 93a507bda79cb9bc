"""Examines a Paimon table that rounds refuse: its markers, the offsets of its rows, and the files that the sweep judges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tiering.errors import MarkerCorrupt, SchemaDrift
from tiering.lake.base import LakeView
from tiering.lake.log_starts import NO_STARTS, LogStart, LogStarts, commit_times_ms
from tiering.lake.maintenance import LakeSurvey, StoredFile
from tiering.lake.marker import PATH_KEY, ROUND_ID_KEY, Marker
from tiering.lake.paimon.commit.manifests import Manifests
from tiering.lake.paimon.errors import lake_errors
from tiering.lake.paimon.reading.data_files import open_data_file
from tiering.lake.paimon.reading.footers import offsets_of, read_footer
from tiering.lake.paimon.reading.loading import LoadedTable, opened_table
from tiering.lake.paimon.reading.snapshots import BRANCH, other_snapshots
from tiering.lake.paimon.reading.view import marker_in, view_of
from tiering.lake.paimon.schema.drift import drift
from tiering.lake.paimon.schema.layout import BUCKET, UNAWARE
from tiering.lake.proof.file_footer import FileIdentity
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.hints import accept_hint
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, PARTITION_SEPARATOR, TIMESTAMP_COLUMN, TableInfo, TableType


def survey_of(loaded: LoadedTable) -> LakeSurvey:
    """Returns the survey of a loaded table. The branch is one line of snapshots, so its newest marker is the head's."""
    view = view_of(loaded, lenient=True)
    return LakeSurvey(view, view.marker or _newest_marker(loaded), view.marker)


def _newest_marker(loaded: LoadedTable) -> Marker | None:
    for snapshot in reversed(loaded.chain):
        if ROUND_ID_KEY in snapshot.properties:
            with suppress(MarkerCorrupt):
                return marker_in(loaded, snapshot)
    return None


def row_offsets(table: TableInfo, view: LakeView, partitions: Mapping[str, int], begins: LogStarts = NO_STARTS) -> RowOffsets:
    """Returns the offsets of the head's rows. Streams the system columns of its files, or reads only their footers. Implements
    `LakeMaintenance.row_offsets`.
    """
    found_offsets, loaded = RowOffsets(), cast(LoadedTable, view.handle)
    head = loaded.head
    if head is None:
        return found_offsets
    with lake_errors(f"read the offsets in the lake table {table.path}", table_path=table.path):
        manifests, identity = Manifests(loaded), FileIdentity(table, view.table_uuid, partitions)
        has_buckets = int(loaded.schema.options.get(BUCKET, UNAWARE)) != UNAWARE
        of_partitions = _by_name(partitions, begins)
        for entry in manifests.live_entries(head):
            texts = [str(value) for value in entry.partition.values]
            name = PARTITION_SEPARATOR.join(texts) if texts else None
            if table.table_type is TableType.PRIMARY_KEY and (name is None or name in partitions):
                found_offsets.add_place((name, entry.bucket))
            elif name is not None and name not in partitions:
                continue
            elif loaded.schema.layout.has_row_offsets:
                _gather(found_offsets, table, name, loaded, loaded.root / manifests.file_path(entry), of_partitions.get(name, {}))
            else:
                path = loaded.root / manifests.file_path(entry)
                footer = read_footer(loaded.storage, table.path, path, int(entry.file.row_count))
                if (complaint := identity.complaint(footer, name, entry.bucket if has_buckets else None)) is not None:
                    raise drift(table.path, None, f"has the file {path.name}, which {complaint}", accept_hint(table.path))
                if not identity.is_former(footer, name):
                    found_offsets.add((name, footer.bucket.bucket_id), offsets_of(footer))
                    found_offsets.add_footer((name, footer.bucket.bucket_id), footer.rows, footer.written_checksum)
    return found_offsets


def _by_name(partitions: Mapping[str, int], begins: LogStarts) -> Mapping[str | None, Mapping[int, LogStart]]:
    """Returns where logs begin, by partition name and bucket id."""
    names = {partition_id: name for name, partition_id in partitions.items()}
    by_name: defaultdict[str | None, dict[int, LogStart]] = defaultdict(dict)
    for bucket, begin in begins.items():
        if bucket.partition_id in names:
            by_name[names[bucket.partition_id]][bucket.bucket_id] = begin
    return by_name


def _gather(
    found_offsets: RowOffsets, info: TableInfo, partition: str | None, loaded: LoadedTable, path: PurePath, begins: Mapping[int, LogStart]
) -> None:
    """Adds the offsets of a file's rows to `found_offsets`. `begins`: where the logs of the partition's buckets begin, by bucket id."""
    if path.suffix != ".parquet":
        raise SchemaDrift(
            f"the lake table {info.path} has the file {path.name}, which is not Parquet", hint=accept_hint(info.path), table_path=info.path
        )
    with open_data_file(loaded.storage, path) as file:
        for batch in file.iter_batches(columns=[BUCKET_COLUMN, OFFSET_COLUMN, *((TIMESTAMP_COLUMN,) if begins else ())]):
            buckets, offsets = batch.column(BUCKET_COLUMN), batch.column(OFFSET_COLUMN).to_numpy()
            times = commit_times_ms(batch.column(TIMESTAMP_COLUMN)) if begins else None
            for bucket in pc.unique(buckets.drop_null()).to_numpy():
                mask = np.asarray(pc.equal(buckets, pa.scalar(int(bucket), pa.int32())).to_numpy(zero_copy_only=False))
                begin = begins.get(int(bucket))
                if begin is None or times is None:
                    found_offsets.add((partition, int(bucket)), offsets[mask])
                else:
                    found_offsets.add_with_times((partition, int(bucket)), offsets[mask], times[mask], begin)


def stored_files(view: LakeView) -> list[StoredFile]:
    """Returns the files in buckets, among manifests and among marker files. Implements `LakeMaintenance.stored_files`."""
    loaded = cast(LoadedTable, view.handle)
    with lake_errors(f"list the files of {view.path}", table_path=view.path):
        return [file for folder in (loaded.root, loaded.marker_folder) for file in loaded.storage.files_below(folder)]


def live_files(view: LakeView) -> set[str]:
    """Returns the locations of the files that any snapshot, tag or branch names, removed data files included. Implements
    `LakeMaintenance.live_files`.
    """
    loaded = cast(LoadedTable, view.handle)
    named: set[str] = set()
    with lake_errors(f"read the manifests of {view.path}", table_path=view.path):
        manifests, read_manifests = Manifests(loaded), set[str]()
        with opened_table(loaded) as folder:
            others = other_snapshots(folder, loaded.storage.folders_in(loaded.root / BRANCH))
        for snapshot in (*loaded.chain, *loaded.tagged, *others):
            named |= {loaded.storage.location(loaded.root / path) for path in manifests.named_files(snapshot, read_manifests)}
            if (marker := snapshot.properties.get(PATH_KEY)) is not None:
                named.add(marker)
    return named


def delete_file(view: LakeView, location: str) -> None:
    """Deletes a file; does nothing if it does not exist. Implements `LakeMaintenance.delete_file`."""
    loaded = cast(LoadedTable, view.handle)
    with lake_errors(f"delete {location}", table_path=view.path):
        path = loaded.storage.path_of(location)
        if not any(path.is_relative_to(folder) for folder in (loaded.root, loaded.marker_folder)):
            raise PermissionError(f"{location} is not a file of the lake table {view.path}")
        loaded.storage.delete(path)
