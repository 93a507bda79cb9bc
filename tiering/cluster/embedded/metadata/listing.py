"""All tables as they are now, kept in memory: after a write only the tables that it touched are read again.

That is right because one process has the folder open (its lock) and writes to the catalog through `altering` alone. A reader of a folder
without its lock (`read_only.py`) reads the file itself, each time.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa

from tiering.cluster.embedded.metadata.database import Metadata
from tiering.cluster.embedded.metadata.table_rows import find_table, list_tables, require_database, tables_by_id
from tiering.model.tables import TableInfo, TablePath


class TableListing:
    """Lists of all tables. Thread-safe. A list that was returned never changes; after any change the next one is another object."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        self._marking = threading.Lock()
        self._touched: set[int] = set()
        self._by_id: dict[int, TableInfo] = {}
        self._sorted: list[TableInfo] | None = None

    @contextmanager
    def altering(self) -> Iterator[tuple[sa.Connection, set[int]]]:
        """A transaction that writes to the catalog, with a set that takes the ids of all tables that it creates, changes or drops.

        Raises ClusterUnavailable.
        """
        touched: set[int] = set()
        # One write is marked before the next begins: a path's former table never stands beside its new one.
        with self._writing:
            try:
                with self._metadata.write() as connection:
                    yield connection, touched
            finally:  # also after a commit whose outcome is unknown: to read a table once more does no harm
                with self._marking:
                    self._touched |= touched

    def all(self) -> Sequence[TableInfo]:
        """Returns all tables, sorted by path; the very same list while nothing changed. Raises ClusterUnavailable."""
        with self._reading:
            # Taken before the read: what is written meanwhile may be missed by it, and is read again the next time.
            with self._marking:
                touched, self._touched = self._touched, set()
            try:
                if self._sorted is None:
                    self._read_all()
                elif touched:
                    self._read_again(self._sorted, touched)
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
        if self._sorted is not None:  # all are not read for the sake of one
            every, place = self.all(), (path.database_name, path.table_name)
            at = bisect_left(every, place, key=_place)
            if at < len(every) and _place(every[at]) == place:
                return every[at]
        with self._metadata.read() as connection:
            return find_table(connection, path).info

    def _read_all(self) -> None:
        with self._metadata.read() as connection:
            tables = list_tables(connection, None)
        self._by_id = {info.table_id: info for info in tables}
        self._sorted = tables

    def _read_again(self, before: list[TableInfo], touched: Collection[int]) -> None:
        with self._metadata.read() as connection:
            current = {info.table_id: info for info in tables_by_id(connection, touched)}
        listed = list(before)
        for table_id in touched:
            if (known := self._by_id.pop(table_id, None)) is not None:
                del listed[bisect_left(listed, _place(known), key=_place)]
        for info in current.values():
            insort(listed, info, key=_place)
        self._by_id |= current
        self._sorted = listed


def _place(info: TableInfo) -> tuple[str, str]:
    """Returns a sort key with the order of SQLite; comparing paths themselves is slow."""
    return info.path.database_name, info.path.table_name
