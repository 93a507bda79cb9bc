"""Statements in Spark beside a writer and a tierer whose rounds commit all the time: each has exactly the rows of one moment.

The inline test with many more statements is `tests/union_read/test_concurrent_reads.py`.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from support.depth import SOAKS
from support.readers.read_model import TableModel
from support.running.cluster_of_processes import Deployment
from tiering.cli.spark.properties import CATALOG
from tiering.cluster.writable import TableSpec
from tiering.model.tables import TablePath

STATEMENTS = 500 if SOAKS else 12
KEYS = 40
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])


class Writer:
    """Writes into a table until it is stopped, and notes what the cluster acknowledged."""

    def __init__(self, service: Deployment, path: TablePath, primary_key: tuple[str, ...]) -> None:
        self._rng = random.Random(39)
        self._service = service
        self._path = path
        self._numbers = count()
        self._lock = threading.Lock()
        with service.cluster() as cluster:
            cluster.create_database(path.database_name, ignore_if_exists=True)
            properties = {"table.datalake.enabled": "true", "table.datalake.freshness": "1 s"}
            self._model = TableModel(cluster.create_table(path, TableSpec(SCHEMA, 2, properties=properties, primary_key=primary_key)))

    @contextmanager
    def writing(self) -> Iterator[None]:
        stopped = threading.Event()

        def write() -> None:
            with self._service.cluster() as cluster:
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

    def ends(self) -> dict[object, int]:
        with self._lock:
            return dict(self._model.ends)  # type: ignore[arg-type]

    def check(self, rows: Counter[tuple[object, ...]], before: dict[object, int]) -> None:
        with self._lock:
            self._model.check_between(rows, before, self._model.ends)  # type: ignore[arg-type]

    def _write(self, cluster: object) -> None:
        number, table = next(self._numbers), self._model.table
        if not table.primary_key:
            rows = [(number * 10 + place, f"text {number}") for place in range(3)]
            for written in cluster.append(self._path, _batch(rows), f"w-{number}", 0):  # type: ignore[attr-defined]
                self._model.appended(rows, written)
            return
        row = (self._rng.randrange(KEYS), f"text {number}")
        if self._rng.random() < 0.2:
            keys = pa.table({"id": [row[0]]}, schema=pa.schema([SCHEMA.field("id")]))
            for written in cluster.delete(self._path, keys, f"w-{number}", 0):  # type: ignore[attr-defined]
                self._model.changed(row[:1], None, written)
            return
        for written in cluster.upsert(self._path, _batch([row]), f"w-{number}", 0):  # type: ignore[attr-defined]
            self._model.changed(row[:1], row, written)


def _batch(rows: list[tuple[int, str]]) -> pa.Table:
    return pa.table(dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True)), schema=SCHEMA)


@pytest.mark.parametrize("primary_key", [(), ("id",)], ids=["log", "primary-key"])
def test_each_statement_has_the_rows_of_one_moment(service: Deployment, fresh_spark: SparkSession, primary_key: tuple[str, ...]) -> None:
    path = TablePath("sales", "keyed" if primary_key else "logged")
    writer = Writer(service, path, primary_key)
    with writer.writing():
        for _ in range(STATEMENTS):
            before = writer.ends()
            rows = Counter(tuple(row) for row in fresh_spark.sql(f"SELECT id, text FROM {CATALOG}.{path}").collect())
            writer.check(rows, before)
    assert service.status(path).lake_snapshot_id is not None
