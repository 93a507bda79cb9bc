"""Decodes record batches of Fluss's log in the Arrow format (docs/fluss-facts.md, "Record batch versions").

   baseOffset i64 | length i32, of what follows it | magic i8 | commitTimestamp i64 | leaderEpoch i32, version 2 only | crc u32 |
   schemaId i16 | attributes i8, bit 0: append-only | lastOffsetDelta i32 | writerId i64 | sequence i32 | count i32 |
   length of the statistics i32 and the statistics, versions 1 and 2 only |
   `count` change types i8, unless append-only | an Arrow record batch message without its schema

All numbers are little-endian. The magic is the version. The CRC32C covers the bytes after it, statistics included. Before it are the
offset, which must follow the previous batch, and the length and the magic, whose damage leads to a wrong checksum or to other bytes than
those of a record batch. Only the commit time and the leader epoch are unprotected. All functions here work on bytes only.

All versions of Fluss write version 0 by default. Clients of Fluss 1.0 write version 1 to a table with `table.statistics.columns`. In the
source of 0.9.1 magic 1 has another layout, which no release writes by default; it is read as that of 1.0.

A fetch with a projection returns record batches with fewer columns and no statistics, but with the checksum of the whole record batch.
`read_header` and `decode_batch` read such batches. `complete_batches` does not accept them, because Lakeward fetches whole batches only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.errors import BadRequest, DataCorrupt, UnsupportedLogVersion
from tiering.library_guards.arrow_ipc import BodyReader
from tiering.model.tables import BucketKey, ChangeType, TablePath

_LENGTH_AND_MAGIC = struct.Struct("<qib")
_COMMIT_TIME = struct.Struct("<q")
_FROM_CRC = struct.Struct("<Ihbiqii")
_STATISTICS_LENGTH = struct.Struct("<i")
_LENGTH_END = 12
"""Number of bytes of a batch that its length does not count."""
_SCHEMA_ID_PLACE = 4
"""Number of bytes of the checksum, which does not cover itself."""
_APPEND_ONLY = 1
MAX_DECOMPRESSED_BYTES = 1 << 30
"""Maximum decompressed size of a batch. Clients send some MB at a time; the limit protects against a hostile batch."""


@dataclass(frozen=True)
class HeaderLayout:
    """The header of one version of the format; sizes and positions in bytes."""

    crc_start: int
    has_statistics: bool

    @property
    def statistics_length_start(self) -> int:
        """Returns the number of bytes before the length of the statistics, or before the records if there are no statistics."""
        return self.crc_start + _FROM_CRC.size

    @property
    def size(self) -> int:
        """Returns the size of the header, including the length of the statistics and without the statistics."""
        return self.statistics_length_start + (_STATISTICS_LENGTH.size if self.has_statistics else 0)


LAYOUTS = {
    0: HeaderLayout(crc_start=21, has_statistics=False),
    1: HeaderLayout(crc_start=21, has_statistics=True),
    2: HeaderLayout(crc_start=25, has_statistics=True),
}
"""The layout of each version, by its magic."""
MAX_HEADER_BYTES = max(layout.size for layout in LAYOUTS.values())
"""This many bytes of a batch of any version are enough to know its offsets and commit time."""


@dataclass(frozen=True)
class LogPlace:
    """The origin of log bytes, for errors."""

    table_path: TablePath
    bucket: BucketKey
    source: str
    """The file, or the server that sent the bytes."""

    def corrupt(self, damage: str, starting_offset: int, stopping_offset: int | None = None) -> DataCorrupt:
        """Returns the error for damaged bytes, which names source, bucket and offset range."""
        stop = "..." if stopping_offset is None else stopping_offset
        return DataCorrupt(
            f"{damage}: {self.source}, bucket {self.bucket} of {self.table_path}, offsets [{starting_offset}, {stop})",
            hint="Let another replica serve the bucket, or restore the file; records after it cannot be read until then.",
            path=self.source,
            bucket=self.bucket,
            starting_offset=starting_offset,
            stopping_offset=stopping_offset,
        )

    def unsupported(self, magic: int, starting_offset: int) -> UnsupportedLogVersion:
        """Returns the error for a batch in a version of the format that is not supported."""
        return UnsupportedLogVersion(
            f"a record batch has the version {magic}, and this release reads the versions {min(LAYOUTS)} to {max(LAYOUTS)}: "
            f"{self.source}, bucket {self.bucket} of {self.table_path}, from offset {starting_offset} on",
            path=self.source,
            bucket=self.bucket,
            starting_offset=starting_offset,
        )


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of a record batch: records `[starting_offset, stopping_offset)`, of which the first `count` exist."""

    position: int
    """Position of its first byte in the surrounding bytes."""
    size: int
    starting_offset: int
    stopping_offset: int
    commit_ms: int
    crc: int
    schema_id: int
    is_append_only: bool
    count: int
    crc_end: int
    """Number of bytes before those that the checksum covers."""
    records_start: int
    """Number of bytes before the change types or, if append-only, before the Arrow message."""


def read_header(data: pa.Buffer | bytes, position: int, place: LogPlace, offset: int) -> BatchHeader | None:
    """Returns the header at `position`; None if the bytes end before the header does. `offset` is the offset that is read, for errors.

    Raises DataCorrupt for an impossible header, UnsupportedLogVersion for an unknown version.
    """
    left = len(data) - position
    if left < _LENGTH_AND_MAGIC.size:
        return None
    starting_offset, length, magic = _LENGTH_AND_MAGIC.unpack_from(data, position)
    layout = LAYOUTS.get(magic)
    if layout is None:
        raise place.unsupported(magic, offset)
    if length < layout.size - _LENGTH_END:
        raise place.corrupt(f"a record batch has a length of {length} bytes", offset)
    if left < layout.size:
        return None
    (commit_ms,) = _COMMIT_TIME.unpack_from(data, position + _LENGTH_AND_MAGIC.size)
    crc, schema_id, attributes, last_delta, _, _, count = _FROM_CRC.unpack_from(data, position + layout.crc_start)
    if not 0 <= count <= last_delta + 1 or last_delta < 0:
        raise place.corrupt(f"a record batch has {count} records in {last_delta + 1} offsets", offset)
    return BatchHeader(
        position,
        length + _LENGTH_END,
        starting_offset,
        starting_offset + last_delta + 1,
        commit_ms,
        crc,
        schema_id,
        bool(attributes & _APPEND_ONLY),
        count,
        layout.crc_start + _SCHEMA_ID_PLACE,
        _records_start(data, position, layout, length + _LENGTH_END, place, offset),
    )


def _records_start(data: pa.Buffer | bytes, position: int, layout: HeaderLayout, size: int, place: LogPlace, offset: int) -> int:
    """Returns the size of header and statistics. Raises DataCorrupt for statistics that do not fit into the batch of `size` bytes."""
    if not layout.has_statistics:
        return layout.size
    (statistics_bytes,) = _STATISTICS_LENGTH.unpack_from(data, position + layout.statistics_length_start)
    if not 0 <= statistics_bytes <= size - layout.size:
        raise place.corrupt(f"a record batch of {size} bytes has statistics of {statistics_bytes} bytes", offset)
    return layout.size + int(statistics_bytes)


def complete_batches(data: pa.Buffer, first: tuple[int, int], stop: int, place: LogPlace) -> Iterator[BatchHeader]:
    """Yields the complete batches below offset `stop`, verified; a last incomplete one is left out.

    The first batch begins at an offset from `first[0]` to `first[1]`, and each further one where the previous one ends. Raises
    DataCorrupt.
    """
    position = 0
    lowest, highest = first
    while highest < stop and (header := read_header(data, position, place, highest)) is not None and position + header.size <= len(data):
        if not lowest <= header.starting_offset <= highest:
            raise place.corrupt(f"the log continues at offset {header.starting_offset} instead of {highest}", highest)
        if google_crc32c.value(data.slice(position + header.crc_end, header.size - header.crc_end)) != header.crc:
            raise damaged("a record batch does not match its checksum", header, place)
        yield header
        position, lowest, highest = position + header.size, header.stopping_offset, header.stopping_offset


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """The records of a batch; `rows` has the columns of its schema id."""

    header: BatchHeader
    rows: pa.RecordBatch
    change_types: npt.NDArray[np.int8] | None
    """Change types of the records; None = append-only."""


def decode_batch(data: pa.Buffer, header: BatchHeader, bodies: BodyReader, place: LogPlace) -> DecodedBatch:
    """Returns the records of a non-empty batch; `bodies` reads those of its schema id. Raises DataCorrupt."""
    start, stop = header.position + header.records_start, header.position + header.size
    change_types = None
    if not header.is_append_only:
        if stop - start < header.count:
            raise damaged("a record batch is too short for its change types", header, place)
        change_types = np.frombuffer(memoryview(data), dtype=np.int8, count=header.count, offset=start)
        if change_types.min() < ChangeType.APPEND or change_types.max() > ChangeType.DELETE:
            raise damaged("a record batch has an unknown change type", header, place)
        start += header.count
    try:
        rows = bodies.read(_aligned(data, start, stop), header.count)
    except BadRequest as error:
        raise damaged(f"a record batch cannot be decoded ({error.message})", header, place) from error
    return DecodedBatch(header, rows, change_types)


def damaged(damage: str, header: BatchHeader, place: LogPlace) -> DataCorrupt:
    """Returns the error for a batch with the given damage."""
    return place.corrupt(damage, header.starting_offset, header.stopping_offset)


def _aligned(data: pa.Buffer, start: int, stop: int) -> pa.Buffer:
    """Returns the bytes at an aligned address, as Arrow's buffers require: messages follow change types, so they may begin anywhere."""
    part = data.slice(start, stop - start)
    if part.address % 8 == 0:
        return part
    copy = pa.allocate_buffer(part.size)
    memoryview(copy)[:] = memoryview(part)
    return copy
