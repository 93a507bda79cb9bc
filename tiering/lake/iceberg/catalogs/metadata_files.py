"""A cache of parsed metadata files: a round loads its table five times, and parsing takes longer with each further snapshot.

A file is parsed again if its size or modification time has changed, because a recreated table can have a metadata file of the same name.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

from pyarrow.fs import FileType
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata

REMEMBERED_BYTES = 8 << 20
"""Upper bound of the size of the cached files. Parsed files take several times as much memory."""

_State = tuple[int, int]
"""Size and modification time in ns of a file."""


class MetadataFiles:
    """Reads metadata files and keeps the latest ones. Safe to use from several threads, because a parsed file is never changed."""

    def __init__(self, remembered_bytes: int = REMEMBERED_BYTES) -> None:
        self._limit = remembered_bytes
        self._lock = Lock()
        self._parsed: OrderedDict[str, tuple[_State, TableMetadata]] = OrderedDict()
        self._bytes = 0

    def read(self, file: PyArrowFile) -> TableMetadata:
        """Returns the metadata in the file. Raises the errors of opening and parsing."""
        state = _state_of(file)
        if state is None:
            return FromInputFile.table_metadata(file)
        with self._lock:
            cached = self._parsed.get(file.location)
            if cached is not None and cached[0] == state:
                self._parsed.move_to_end(file.location)
                return cached[1]
        metadata = FromInputFile.table_metadata(file)
        self._remember(file.location, state, metadata)
        return metadata

    def _remember(self, location: str, state: _State, metadata: TableMetadata) -> None:
        if state[0] > self._limit:
            return
        with self._lock:
            former = self._parsed.pop(location, None)
            self._parsed[location] = (state, metadata)
            self._bytes += state[0] - (0 if former is None else former[0][0])
            while self._bytes > self._limit:
                _, ((size, _), _) = self._parsed.popitem(last=False)
                self._bytes -= size


def _state_of(file: PyArrowFile) -> _State | None:
    """Returns size and time of a file; None for a file that does not exist, and for a store without times."""
    info = file._filesystem.get_file_info(file._path)
    return (info.size, info.mtime_ns) if info.type == FileType.File and info.size is not None and info.mtime_ns else None
