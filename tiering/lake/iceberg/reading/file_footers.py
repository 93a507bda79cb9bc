"""Footers of a clean table's files, read by Lakeward itself, and the buckets of files by them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, FileFormat

from tiering.errors import DataCorrupt
from tiering.lake.iceberg.reading.lake_parquet import LakeParquet, open_lake_file
from tiering.lake.outside_errors import DAMAGED_HINT
from tiering.lake.proof.file_footer import FileFooter, decode_footer, sum_of
from tiering.lake.proof.row_checksum import row_checksum

THREADS = 16
REMEMBERED_FILES = 200_000
"""Some 300 bytes each."""


def read_footer(io: FileIO, file: DataFile) -> FileFooter | None:
    """What a file says of its rows; None if it does not, or wrongly: then somebody else wrote it."""
    if file.file_format is not FileFormat.PARQUET:
        return None
    with open_lake_file(io, file.file_path) as stream:
        footer = footer_of(LakeParquet(stream, file.file_path), file.file_path)
    return footer if footer is not None and footer.rows == file.record_count else None


def footer_of(parquet: LakeParquet, location: str) -> FileFooter | None:
    """The footer of an open file; None as `read_footer`."""
    metadata = parquet.metadata.metadata or {}
    try:
        footer = decode_footer({key.decode(errors="replace"): value.decode(errors="replace") for key, value in metadata.items()})
    except ValueError:
        return None
    return footer if footer is not None and f"lakeward-{footer.round_id}-" in location else None


def checked_rows(rows: Iterable[pa.RecordBatch], footer: FileFooter, location: str) -> Iterator[pa.RecordBatch]:
    """All `rows` of a file; at their end DataCorrupt if they do not have the checksum of its footer."""
    checksums = []
    for batch in rows:
        checksums.append(row_checksum(batch))
        yield batch
    if sum_of(checksums) != footer.checksum:
        raise DataCorrupt(f"the rows of {location} do not have the checksum of its footer", hint=DAMAGED_HINT, lake_file=location)


class FileBuckets:
    """Which bucket the rows of a file are of, or those that a position-delete file names: by its footer; None = of any bucket.

    Files are remembered by location and size: a name of ours carries a random nonce and is never given to other rows. Safe to use from
    several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[tuple[str, str, int], int | None] = {}

    def of(self, io: FileIO, lake_table_uuid: str, files: Sequence[DataFile]) -> dict[str, int | None]:
        """By location. Opens the files that are not known yet; raises what opening them raises."""
        names = {file.file_path: (lake_table_uuid, file.file_path, file.file_size_in_bytes) for file in files}
        with self._lock:
            known = {path: self._known[name] for path, name in names.items() if name in self._known}
        unknown = [file for file in files if file.file_path not in known]
        with ThreadPoolExecutor(min(THREADS, len(unknown) or 1)) as pool:
            for file, footer in zip(unknown, pool.map(lambda file: read_footer(io, file), unknown), strict=True):
                is_ours = footer is not None and footer.lake_table_uuid == lake_table_uuid
                known[file.file_path] = footer.bucket.bucket_id if footer is not None and is_ours else None
        with self._lock:
            for file in unknown:
                self._known[names[file.file_path]] = known[file.file_path]
            while len(self._known) > REMEMBERED_FILES:
                del self._known[next(iter(self._known))]
        return known
