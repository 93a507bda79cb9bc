"""All tables at present, kept in memory: after a write only the tables that it touched are read again.

That is correct because one process holds the folder's lock and writes to the catalog only through `altering`. A reader of a folder without
its lock (`ReadOnlyEmbeddedCluster`) reads the file for each request.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa

from tiering.cluster.embedded.metadata.database import Metadata
from tiering.cluster.embedded.metadata.table_rows import find_table, list_tables, require_database, tables_by_id
from tiering.model.tables import TableInfo, TablePath


class TableListing:
    """Lists of all tables. Thread-safe. A returned list never changes; after any change the next list is another object."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._marking = threading.Lock()
        self._touched: set[int] = set()
        self._sorted: list[TableInfo] | None = None

    @contextmanager
    def altering(self) -> Iterator[tuple[sa.Connection, set[int]]]:
        """Opens a transaction that writes to the catalog. The caller adds the ids of all tables that it creates, changes or drops to the
        yielded set.

        Raises ClusterUnavailable.
        """
        touched: set[int] = set()
        # One write is marked before the next begins, so that a path's former table is never listed beside its new one.
        with self._writing:
            try:
                with self._metadata.write() as connection:
                    yield connection, touched
            finally:  # even after a commit with an unknown outcome: reading a table once more is harmless
                with self._marking:
                    self._touched |= touched

    def all(self) -> Sequence[TableInfo]:
        """Returns all tables, sorted by path; the same list object while nothing has changed. Raises ClusterUnavailable."""
        with self._reading:
            # Taken before the read: a concurrent write may be missed by the read, but its tables are read again the next time.
            with self._marking:
                touched, self._touched = self._touched, set()
            try:
                if self._sorted is None or touched:
                    self._read(touched)
            except BaseException:
                with self._marking:
                    self._touched |= touched
                raise
            assert self._sorted is not None
            return self._sorted

    def of(self, database_name: str) -> Sequence[TableInfo]:
        """Returns the tables of one database. Raises UnknownDatabase, ClusterUnavailable."""
        every = self.all()
        start, stop = (bisect_left(every, (name, ""), key=_place) for name in (database_name, database_name + "\0"))
        if start == stop:
            with self._metadata.read() as connection:
                require_database(connection, database_name)
        return every[start:stop]

    def find(self, path: TablePath) -> TableInfo:
        """Returns one table. Raises UnknownTable, UnknownDatabase, ClusterUnavailable."""
        if self._sorted is not None:  # the list is not read for a single table
            every, place = self.all(), (path.database_name, path.table_name)
            at = bisect_left(every, place, key=_place)
            if at < len(every) and _place(every[at]) == place:
                return every[at]
        with self._metadata.read() as connection:
            return find_table(connection, path).info

    def _read(self, touched: Collection[int]) -> None:
        """Reads the touched tables again, or all tables the first time."""
        with self._metadata.read() as connection:
            current = list_tables(connection, None) if self._sorted is None else tables_by_id(connection, touched)
        unchanged = [info for info in self._sorted or () if info.table_id not in touched]
        self._sorted = sorted([*unchanged, *current], key=_place)


def _place(info: TableInfo) -> tuple[str, str]:
    """Returns a sort key with SQLite's order; comparing the paths themselves is slow."""
    return info.path.database_name, info.path.table_name
