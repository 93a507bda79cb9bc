"""The log: appends that are published as a whole or not at all. `log_index` looks up offsets and files.

An append writes its files first, and gets its offsets in the one transaction that publishes them. So writers wait for each other only
during that transaction, and a crash before it leaves only unreferenced files.
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import pyarrow as pa
import sqlalchemy as sa

from tiering.clock import Clock, Ids
from tiering.cluster.embedded.log.appends import (
    EarlierWrite,
    FileChunk,
    WriteKey,
    WrittenColumns,
    WrittenWithOtherColumns,
    columns_of_write,
    earlier_write,
    encode,
    other_rows,
    publish,
    write_key,
)
from tiering.cluster.embedded.log.bucketing import Bucketing
from tiering.cluster.embedded.log.log_index import LogIndex
from tiering.cluster.embedded.log.placing import place_rows
from tiering.cluster.embedded.log.segments import write_segments
from tiering.cluster.embedded.metadata.database import Metadata
from tiering.cluster.embedded.metadata.table_rows import StoredTable, table_exists, with_columns_at
from tiering.cluster.embedded.stored_paths import stored_path
from tiering.cluster.rows import fit_rows
from tiering.cluster.writable import AppendedRange, Rows
from tiering.errors import BadRequest, ClusterUnavailable, InvalidData, UnknownTable
from tiering.instants import to_microseconds

Content = TypeVar("Content")


@dataclass(frozen=True)
class FittedWrite(Generic[Content]):
    """A write with the columns to which its rows were fitted, and the remaining result of an earlier attempt."""

    table: StoredTable
    key: WriteKey
    content: Content
    earlier: EarlierWrite | None


class Log(LogIndex):
    """Appends to the logs of all tables."""

    def __init__(self, root: Path, metadata: Metadata, clock: Clock, ids: Ids) -> None:
        super().__init__(metadata)
        self._root = root
        self._clock = clock
        self._ids = ids
        self._round_robin: Mapping[int, Iterator[int]] = defaultdict(itertools.count)

    def append(self, table: StoredTable, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Appends rows. Implements `WritableCluster.append`."""
        if rows.num_rows == 0:
            fit_rows(rows, table.info)
            return ()
        turn = next(self._round_robin[table.info.table_id]) if table.bucketing is Bucketing.ROUND_ROBIN else 0

        def fit(version: StoredTable) -> tuple[WriteKey, tuple[list[FileChunk], WrittenColumns]]:
            batch = fit_rows(rows, version.info)
            pieces = encode(place_rows(version.info, version.bucketing, batch, turn))
            crcs = b"".join(piece.segment.crc32.to_bytes(4, "big") for piece in pieces)
            key = write_key(version.info, writer_id, sequence, (piece.segment.content for piece in pieces), zlib.crc32(crcs))
            return key, (pieces, WrittenColumns(version.info.schema_id, batch.num_columns))

        while True:
            try:
                write = self.fitted(table, writer_id, sequence, fit)
                if write.earlier is not None and write.earlier.is_whole:
                    return write.earlier.ranges
                return self._write_and_publish(write.key, *write.content)
            except WrittenWithOtherColumns:
                continue

    def fitted(
        self, table: StoredTable, writer_id: str, sequence: int, fit: Callable[[StoredTable], tuple[WriteKey, Content]]
    ) -> FittedWrite[Content]:
        """Fits the rows of a write to the columns of its first attempt, which recognizes a repeated write, or else to the present ones.

        `fit` returns key and content of the write for the table with these columns. Raises its errors, and InvalidArgument if an earlier
        attempt had other rows.
        """
        with self._metadata.read() as connection:
            schema_ids = columns_of_write(connection, table.info, writer_id, sequence)
            versions = [with_columns_at(connection, table, schema_id) for schema_id in schema_ids]
        for former in versions[:-1]:
            with suppress(InvalidData):
                key, content = fit(former)
                if (earlier := self.earlier(key)) is not None:
                    return FittedWrite(former, key, content, earlier)
        try:
            key, content = fit(versions[-1])
        except InvalidData as error:
            if versions[-1] is table:
                raise
            raise other_rows(table.info, writer_id, sequence) from error
        return FittedWrite(versions[-1], key, content, self.earlier(key))

    def append_changes(
        self, table: StoredTable, changes: pa.RecordBatch, key: WriteKey, together_with: Callable[[sa.Connection], None] | None = None
    ) -> Sequence[AppendedRange]:
        """Publishes rows of a primary-key table with their change types, with rows of one key next to each other. Without rows only `key`
        is recorded.

        `together_with` runs in the same transaction.
        """
        pieces = encode(place_rows(table.info, table.bucketing, changes, 0)) if changes.num_rows else []
        columns = WrittenColumns(table.info.schema_id, changes.num_columns - 1)
        return self._write_and_publish(key, pieces, columns, together_with)

    def earlier(self, key: WriteKey) -> EarlierWrite | None:
        """Returns the remaining result of an earlier attempt of the write; None without one. Raises InvalidArgument if that write had other
        rows.
        """
        with self._metadata.read() as connection:
            return earlier_write(connection, key)

    def _write_and_publish(
        self,
        key: WriteKey,
        pieces: Sequence[FileChunk],
        columns: WrittenColumns,
        together_with: Callable[[sa.Connection], None] | None = None,
    ) -> Sequence[AppendedRange]:
        table = key.table
        try:
            paths = write_segments(self._root, table.table_id, [(self._ids.new_id(), piece.segment) for piece in pieces])
        except OSError as error:
            hint = "Check that the disk is not full."
            raise ClusterUnavailable(f"cannot write to the log of {table.path}: {error}", hint=hint) from error
        surplus = set(paths)
        with self._metadata.write() as connection:
            try:
                earlier = earlier_write(connection, key)
            except (BadRequest, WrittenWithOtherColumns):
                self._remove(paths)
                raise
            is_there = earlier is not None or table_exists(connection, table.table_id)
            if is_there and (earlier is None or not earlier.is_whole):
                files = zip(pieces, paths, strict=True)
                missing = [(piece, path) for piece, path in files if earlier is None or earlier.is_missing(piece.partition_name)]
                try:
                    if together_with is not None:
                        together_with(connection)
                    ranges = publish(connection, key, missing, columns, to_microseconds(self._clock.now()), earlier)
                except BadRequest:  # the write is certainly not published; after a failed commit its files stay until the next start
                    self._remove(paths)
                    raise
                surplus -= {path for _, path in missing}
            elif earlier is not None:
                ranges = earlier.ranges
        self._remove(surplus)
        if not is_there:
            raise UnknownTable(f"the table {table.path} was dropped", table_id=table.table_id)
        return ranges

    def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            stored_path(self._root, path).unlink(missing_ok=True)
