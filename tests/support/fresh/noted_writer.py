"""A writer beside statements: it notes which rows its table has at each end of its log."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any

import pyarrow as pa

from support.fresh.read_model import TableModel
from support.running.cluster_of_processes import KEYED
from tiering.cluster.writable import TableSpec, WritableCluster
from tiering.model.tables import Offsets, TablePath

KEYS = 40
OpenCluster = Callable[[], AbstractContextManager[WritableCluster]]


class NotedWriter:
    """Writes into a new table until it is stopped, and notes what the cluster acknowledged. Statements are compared with that."""

    def __init__(self, open_cluster: OpenCluster, path: TablePath, primary_key: tuple[str, ...]) -> None:
        self._rng = random.Random(39)
        self._open_cluster = open_cluster
        self._path = path
        self._numbers = count()
        self._lock = threading.Lock()
        with open_cluster() as cluster:
            cluster.create_database(path.database_name, ignore_if_exists=True)
            properties = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 s"}
            self._model = TableModel(cluster.create_table(path, TableSpec(KEYED, 2, properties=properties, primary_key=primary_key)))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        stopped = threading.Event()

        def write() -> None:
            with self._open_cluster() as cluster:
                while not stopped.is_set():
                    with self._lock:
                        self._write(cluster)
                    stopped.wait(0.01)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()

    def check(self, read: Callable[[], Iterable[Sequence[Any]]], statements: int) -> None:
        """Runs statements while it writes. Raises AssertionError unless each has the rows of one moment since the statement began."""
        with self._writing():
            for _ in range(statements):
                before = self._ends()
                rows = Counter(tuple(row) for row in read())
                with self._lock:
                    self._model.check_between(rows, before, self._model.ends)

    def _ends(self) -> Offsets:
        with self._lock:
            return dict(self._model.ends)

    def _write(self, cluster: WritableCluster) -> None:
        number, table = next(self._numbers), self._model.table
        if not table.primary_key:
            rows = [(number * 10 + place, f"text {number}") for place in range(3)]
            for written in cluster.append(self._path, _batch(rows), f"w-{number}", 0):
                self._model.appended(rows, written)
            return
        row = (self._rng.randrange(KEYS), f"text {number}")
        if self._rng.random() < 0.2:
            keys = pa.table({"id": [row[0]]}, schema=pa.schema([KEYED.field("id")]))
            for written in cluster.delete(self._path, keys, f"w-{number}", 0):
                self._model.changed(row[:1], None, written)
            return
        for written in cluster.upsert(self._path, _batch([row]), f"w-{number}", 0):
            self._model.changed(row[:1], row, written)


def _batch(rows: list[tuple[int, str]]) -> pa.Table:
    return pa.table(dict(zip(KEYED.names, map(list, zip(*rows, strict=True)), strict=True)), schema=KEYED)
