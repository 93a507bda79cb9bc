"""The offsets of a clean log table's rows, from the footers of its data files. The rows themselves are not read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table

from tiering.errors import SchemaDrift
from tiering.lake.iceberg.primary_key.bucket_files import LiveFile, partition_of
from tiering.lake.iceberg.primary_key.position_deletes import dead_rows
from tiering.lake.iceberg.reading.file_footers import read_footer
from tiering.lake.iceberg.schema.drift import drift
from tiering.lake.iceberg.schema.partition_values import PartitionValue
from tiering.lake.proof.file_footer import FileFooter
from tiering.lake.rules.hints import accept_hint
from tiering.lake.writing.keys import Mask
from tiering.model.tables import TablePath


@dataclass(frozen=True)
class LivingFile:
    """A data file: its partition value, its footer, and the offsets of its live rows."""

    location: str
    partition: PartitionValue
    footer: FileFooter
    offsets: npt.NDArray[np.int64]


def living_files(table: Table, path: TablePath, snapshot_id: int) -> Iterator[LivingFile]:
    """Yields the data files of a snapshot.

    Raises SchemaDrift for a file of another writer, whose rows carry no offsets.
    """
    data, dead = files_of_log_table(table, path, snapshot_id)
    for file in data:
        footer = read_footer(table.io, file)
        if footer is None:
            raise _without_offsets(path, file)
        offsets = np.concatenate([np.zeros(0, np.int64), *(np.arange(start, stop) for start, stop in footer.runs)])
        alive = offsets[~dead[file.file_path]] if file.file_path in dead else offsets
        yield LivingFile(file.file_path, partition_of(file), footer, alive)


def files_of_log_table(table: Table, path: TablePath, snapshot_id: int) -> tuple[list[DataFile], dict[str, Mask]]:
    """Returns the data files of a log table's snapshot, and by location which of their rows are deleted.

    Raises SchemaDrift for equality deletes, which only other writers make.
    """
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    files: dict[DataFileContent, list[DataFile]] = defaultdict(list)
    for manifest in [] if snapshot is None else snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            files[entry.data_file.content].append(entry.data_file)
    if files[DataFileContent.EQUALITY_DELETES]:
        raise _without_offsets(path, files[DataFileContent.EQUALITY_DELETES][0])
    data = files[DataFileContent.DATA]
    dead, _ = dead_rows(table.io, map(_live, data), map(_live, files[DataFileContent.POSITION_DELETES]))
    return data, dead


def _live(file: DataFile) -> LiveFile:
    return LiveFile(file.file_path, file.record_count, file.file_size_in_bytes)


def _without_offsets(path: TablePath, file: DataFile) -> SchemaDrift:
    return drift(
        path,
        None,
        f"holds the file {file.file_path}, which another writer made: the layout is clean, so its rows carry no offsets",
        accept_hint(path),
    )
