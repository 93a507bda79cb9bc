"""The log: appends that are published all or none. Offsets, and which files hold a range: `log_index`.

An append writes its files first and gets its offsets in the one transaction that publishes them; so writers wait
for each other for that transaction only, and a crash before it leaves files that nobody reads.
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

from tiering.clock import Clock, Ids
from tiering.cluster.embedded.log.appends import Append, WriteKey, earlier_ranges, encode, publish
from tiering.cluster.embedded.log.bucketing import Bucketing
from tiering.cluster.embedded.log.log_index import LogIndex
from tiering.cluster.embedded.log.placing import place_rows
from tiering.cluster.embedded.log.segments import write_segments
from tiering.cluster.embedded.metadata.database import Metadata
from tiering.cluster.embedded.metadata.table_rows import StoredTable, table_exists
from tiering.cluster.embedded.stored_paths import stored_path
from tiering.cluster.writable import AppendedRange
from tiering.errors import BadRequest, ClusterUnavailable, UnknownTable
from tiering.instants import to_microseconds


class Log(LogIndex):
    """Appends to the logs of all tables."""

    def __init__(self, root: Path, metadata: Metadata, clock: Clock, ids: Ids) -> None:
        super().__init__(metadata)
        self._root = root
        self._clock = clock
        self._ids = ids
        self._round_robin: Mapping[int, Iterator[int]] = defaultdict(itertools.count)

    def append(self, table: StoredTable, batch: pa.RecordBatch, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """As `WritableCluster.append`, for rows that fit the table already."""
        if batch.num_rows == 0:
            return ()
        turn = next(self._round_robin[table.info.table_id]) if table.bucketing is Bucketing.ROUND_ROBIN else 0
        pieces = encode(place_rows(table.info, table.bucketing, batch, turn))
        crcs = b"".join(piece.segment.crc32.to_bytes(4, "big") for piece in pieces)
        key = WriteKey(table.info, writer_id, sequence, zlib.crc32(crcs))
        earlier = self.earlier(key)
        return self._write_and_publish(Append(key, pieces, batch.num_columns)) if earlier is None else earlier

    def append_changes(
        self, table: StoredTable, changes: pa.RecordBatch, key: WriteKey, together_with: Callable[[sa.Connection], None] | None = None
    ) -> Sequence[AppendedRange]:
        """Publishes rows of a primary-key table with their change types, those of a key next to each other; without rows only `key` is
        recorded.

        `together_with` is done in the same transaction.
        """
        pieces = encode(place_rows(table.info, table.bucketing, changes, 0)) if changes.num_rows else []
        return self._write_and_publish(Append(key, pieces, changes.num_columns - 1), together_with)

    def earlier(self, key: WriteKey) -> Sequence[AppendedRange] | None:
        """Returns the ranges that a write got when it came before; None if it did not. Raises InvalidArgument if it had other rows then."""
        with self._metadata.read() as connection:
            return earlier_ranges(connection, key)

    def _write_and_publish(self, append: Append, together_with: Callable[[sa.Connection], None] | None = None) -> Sequence[AppendedRange]:
        named = [(self._ids.new_id(), piece.segment) for piece in append.pieces]
        try:
            paths = write_segments(self._root, append.table.table_id, named)
        except OSError as error:
            raise ClusterUnavailable(f"cannot write to the log of {append.table.path}: {error}", hint="Is the disk full?") from error
        with self._metadata.write() as connection:
            ranges = earlier_ranges(connection, append.key)
            if ranges is None and table_exists(connection, append.table.table_id):
                with self._removed_if_refused(paths):
                    if together_with is not None:
                        together_with(connection)
                    return publish(connection, append, paths, to_microseconds(self._clock.now()))
        self._remove(paths)
        if ranges is None:
            raise UnknownTable(f"the table {append.table.path} was dropped", table_id=append.table.table_id)
        return ranges

    @contextmanager
    def _removed_if_refused(self, paths: Sequence[str]) -> Iterator[None]:
        """Removes the files of a write that was certainly not published; after a failed commit, which may have landed, they stay until the
        next start.
        """
        try:
            yield
        except BadRequest:
            self._remove(paths)
            raise

    def _remove(self, paths: Sequence[str]) -> None:
        for path in paths:
            stored_path(self._root, path).unlink(missing_ok=True)
