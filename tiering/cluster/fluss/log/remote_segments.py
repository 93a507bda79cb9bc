"""Log segments that a tablet server moved to Fluss's remote storage: files with the same record batches.

The file of a segment is `{remote_log_tablet_dir}/{segment_id}/{first offset, 20 digits}.log`. It is read in blocks, so that a segment of
any size takes little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa

from tiering.cluster.fluss.log.batches import MAX_HEADER_BYTES, BatchHeader, LogPlace, complete_batches, read_header
from tiering.cluster.fluss.log.rows import LogChunk
from tiering.cluster.fluss.remote_files import open_remote
from tiering.errors import ClusterUnavailable

BLOCK_BYTES = 16 * 1024 * 1024
"""Size of a read; a longer record batch is read as a whole nevertheless."""
_INDEX_WINDOW_BYTES = 64 * 1024
"""Size of a read that looks for the record batch of an offset: Fluss's index has an entry for every few KiB."""


@dataclass(frozen=True)
class RemoteSegment:
    """Records `[starting_offset, stopping_offset)` of a bucket's log in one file."""

    segment_id: str
    starting_offset: int
    stopping_offset: int

    def path(self, folder: str) -> str:
        """Returns the path of its file below a bucket's remote folder."""
        return f"{folder}/{self.segment_id}/{self.starting_offset:020d}.log"


@dataclass(frozen=True)
class RemoteLog:
    """The remote segments of records from an offset on, as a tablet server describes them."""

    folder: str
    segments: Sequence[RemoteSegment]
    first_position: int
    """Position in the first segment of a record batch at or before that offset."""


class RemoteSegmentMissing(Exception):
    """A segment's file does not exist (any more). The reader of the log checks whether retention removed it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def remote_chunks(remote: RemoteLog, start: int, stop: int, place: LogPlace, properties: Mapping[str, str]) -> Iterator[LogChunk]:
    """Yields the record batches of the segments from offset `start` on, until `stop` or the end of the last segment.

    A chunk is at most BLOCK_BYTES long, or one record batch. Raises DataCorrupt, RemoteSegmentMissing, ClusterUnavailable, SetupError.
    """
    position = remote.first_position
    for segment in remote.segments:
        if start >= stop:
            return
        if not segment.starting_offset <= start < segment.stopping_offset:
            raise place.corrupt(f"offset {start} is not in the remote segments that the server names", start, stop)
        for chunk in _segment_chunks(segment, remote.folder, position, (start, stop), place, properties):
            yield chunk
            start = max(start, chunk.headers[-1].stopping_offset)
            if start >= stop:
                return
        position = 0


def _segment_chunks(
    segment: RemoteSegment, folder: str, position: int, offsets: tuple[int, int], place: LogPlace, properties: Mapping[str, str]
) -> Iterator[LogChunk]:
    start, stop = offsets[0], min(offsets[1], segment.stopping_offset)
    path = segment.path(folder)
    place = replace(place, source=path)
    first = (segment.starting_offset, start) if position else (segment.starting_offset, segment.starting_offset)
    with _opened(path, properties) as read:
        while first[1] < stop:
            data = read(position, BLOCK_BYTES)
            headers = list(complete_batches(data, first, stop, place))
            if not headers:
                header = read_header(data, 0, place, first[1])
                data = read(position, 0 if header is None else header.size)
                headers = list(complete_batches(data, first, stop, place))
            if not headers:
                raise place.corrupt("the file ends within its records", first[1], segment.stopping_offset)
            yield LogChunk(data, headers, place)
            position += headers[-1].position + headers[-1].size
            first = (headers[-1].stopping_offset, headers[-1].stopping_offset)


def remote_header(remote: RemoteLog, offset: int, place: LogPlace, properties: Mapping[str, str]) -> BatchHeader:
    """Returns the header of the record batch with `offset`, which is in the first segment; reads only few bytes, and no records.

    Raises DataCorrupt, RemoteSegmentMissing, ClusterUnavailable, SetupError.
    """
    segment = remote.segments[0]
    path = segment.path(remote.folder)
    place = replace(place, source=path)
    position = remote.first_position
    with _opened(path, properties) as read:
        while True:
            window = read(position, _INDEX_WINDOW_BYTES)
            at = 0
            while (header := read_header(window, at, place, offset)) is not None:
                if header.stopping_offset > offset:
                    return header
                at += header.size
            if len(window) < MAX_HEADER_BYTES:
                raise place.corrupt("the file ends before the offset", offset, segment.stopping_offset)
            position += at


@contextmanager
def _opened(path: str, properties: Mapping[str, str]) -> Iterator[Callable[[int, int], pa.Buffer]]:
    """Yields a function that reads up to a number of bytes from a position on; fewer only at the end."""
    system, place = open_remote(path, properties)
    try:
        with system.open_input_file(place) as file:

            def read(position: int, size: int) -> pa.Buffer:
                file.seek(position)
                return file.read_buffer(size)

            yield read
    except FileNotFoundError as error:
        raise RemoteSegmentMissing(path) from error
    except (OSError, pa.ArrowException) as error:
        raise ClusterUnavailable(
            f"cannot read the remote log segment {path}: {error}",
            hint="Check that the storage of the cluster's remote.data.dir answers, and that the executors may read it.",
        ) from error
