"""Competitors of a round of a primary-key table in Paimon: the floor, pypaimon's own write, and Paimon's Java write in a JVM.

All of them write to tables that look the same: `changelog-producer` is `input`, so all changes are written beside the last one of each key.
"""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pypaimon import CatalogFactory
from rounds.primary_key_source import Round
from running.tests_path import ROOT

from support.fluss_paimon.plugin import tiering_class_path
from support.java_sources import compiled_jar
from tiering.cli.fluss_server.java_process import JVM_OPTIONS
from tiering.cli.spark.java import require_java
from tiering.lake.paimon.lake import PaimonLake
from tiering.lake.paimon.writing.parquet_files import java_encodings
from tiering.lake.table_options import LAYOUT
from tiering.model.tables import CHANGE_TYPE_COLUMN, ChangeType, TableInfo

ROW_KINDS = {ChangeType.INSERT: 0, ChangeType.UPDATE_BEFORE: 1, ChangeType.UPDATE_AFTER: 2, ChangeType.DELETE: 3}
_SOURCES = Path(__file__).parent / "java"


@dataclass(frozen=True)
class FloorJob:
    """One bucket: the log to write, the files, and the columns that the lake has."""

    log: str
    target: str
    changelog: str
    columns: tuple[str, ...]


def floor(job: FloorJob) -> int:
    """Writes all records of the log, and those that stay, unsorted and with no thought of which they are; how many stay."""
    with pa.OSFile(job.log) as source:
        rows = pa.ipc.open_file(source).read_all()
    stay = pc.is_in(rows[CHANGE_TYPE_COLUMN], value_set=pa.array([ChangeType.INSERT, ChangeType.UPDATE_AFTER], pa.int8()))
    rows = rows.select([*job.columns, CHANGE_TYPE_COLUMN])
    encodings = java_encodings(rows)
    for path, written in ((job.target, rows.filter(stay)), (job.changelog, rows)):
        pq.write_table(written, path, compression="zstd", use_dictionary=encodings.dictionary, column_encoding=encodings.encoding)
    return int(pc.sum(stay).as_py())


class PaimonTables:
    """Tables of one warehouse, and the JVM that writes and counts their rows; each table looks as Lakeward makes it."""

    def __init__(self, folder: Path, table: TableInfo, threads: int) -> None:
        self._folder = folder
        self._table = table
        self.columns = LAYOUT.of(table.properties).lake_schema(table).names
        """Columns of the lake table."""
        libraries = tiering_class_path()
        jar = compiled_jar(_SOURCES, libraries, ROOT / "build" / "paimon-java.jar")
        command = [str(require_java()), *JVM_OPTIONS, "-Xmx3g", "-cp", f"{libraries}:{jar}", "io.lakeward.bench.PaimonJava"]
        with (folder / "paimon-java.log").open("w") as errors:
            self._process = subprocess.Popen(
                [*command, str(folder), str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    def make(self, name: str) -> Path:
        """An empty table in a warehouse of that name; its folder."""
        PaimonLake(self.warehouse(name)).ensure_table(self._table)
        return self.root(self.warehouse(name))

    def warehouse(self, name: str) -> Path:
        return self._folder / f"warehouse-{name}"

    def root(self, warehouse: Path) -> Path:
        """The table's folder in a warehouse."""
        return warehouse / f"{self._table.path.database_name}.db" / self._table.path.table_name

    def write(self, root: Path, changes: Round) -> float:
        """Seconds of Paimon's Java write and commit of a round's changes."""
        files = [as_columns(log, log.with_suffix(".columns")) for log in changes.logs.values()]
        return float(self._say("write", str(root), *map(str, files)))

    def check(self, root: Path, rows: int) -> None:
        """Ends the run if Paimon's reader finds another number of rows."""
        if (count := int(self._say("count", str(root)))) != rows:
            raise SystemExit(f"Paimon's reader finds {count} rows in {root}, not {rows}")

    def close(self) -> None:
        self._process.communicate()

    def _say(self, *words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("> "):
                return line.removeprefix("> ").strip()
        raise SystemExit("Paimon's JVM ended: see paimon-java.log in --work")


class PaimonJava:
    """Paimon's Java, warm, a bucket a thread: it is given all changes, as Flink's tiering gives them."""

    def __init__(self, tables: PaimonTables) -> None:
        self._tables = tables

    def load(self, name: str, first: Round) -> None:
        self._tables.write(self._tables.make(f"{name}-java"), first)

    def merge(self, name: str, changes: Round) -> float:
        """Seconds."""
        root = self._tables.root(self._tables.warehouse(f"{name}-java"))
        taken = self._tables.write(root, changes)
        self._tables.check(root, changes.rows_after)
        return taken


class PyPaimon:
    """pypaimon's own write. It is given the last changes without the deletes, which it knows only from a column of the table's own."""

    def __init__(self, tables: PaimonTables) -> None:
        self._tables = tables
        self._not_deleted: dict[str, int] = {}

    def load(self, name: str, first: Round) -> None:
        """By Java: pypaimon takes a minute for a million keys."""
        self._tables.write(self._tables.make(f"{name}-pypaimon"), first)

    def merge(self, name: str, changes: Round) -> float:
        """Seconds."""
        warehouse = self._tables.warehouse(f"{name}-pypaimon")
        root = self._tables.root(warehouse)
        table = CatalogFactory.create({"warehouse": str(warehouse)}).get_table(f"{root.parent.stem}.{root.name}")
        rows = pq.read_table(changes.merge)
        rows = rows.filter(pc.not_equal(rows["op"], int(ChangeType.DELETE))).drop_columns(["op"])
        zeros = np.zeros(rows.num_rows, np.int64)
        rows = rows.append_column("__bucket", pa.array(zeros.astype(np.int32))).append_column("__offset", pa.array(zeros))
        rows = rows.append_column("__timestamp", pa.array(zeros).cast(pa.timestamp("ms", "UTC")))
        rows = rows.select(self._tables.columns).combine_chunks()
        start = time.perf_counter()
        builder = table.new_batch_write_builder()
        writer = builder.new_write()
        writer.write_arrow(rows)
        builder.new_commit().commit(writer.prepare_commit())
        taken = time.perf_counter() - start
        self._not_deleted[name] = self._not_deleted.get(name, 0) + changes.changes - rows.num_rows
        self._tables.check(root, changes.rows_after + self._not_deleted[name])
        return taken


def as_columns(log: Path, target: Path) -> Path:
    """A changelog as PaimonJava reads it: 8 bytes a value, a column after the other."""
    with pa.OSFile(str(log)) as source:
        rows = pa.ipc.open_file(source).read_all()
    kinds = np.array([ROW_KINDS.get(kind, 0) for kind in ChangeType], np.int64)[rows[CHANGE_TYPE_COLUMN].to_numpy()]
    names = rows["name"].to_pylist()
    texts = [name.encode() for name in names]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    columns = (
        np.array([rows.num_rows], np.int64),
        kinds,
        rows["id"].to_numpy(),
        rows["visits"].to_numpy().astype(np.int64),
        rows["amount"].to_numpy(),
        rows["visited_at"].cast(pa.int64()).to_numpy(),
        rows["__offset"].to_numpy(),
        ends,
    )
    with target.open("wb") as file:
        for column in columns:
            file.write(np.ascontiguousarray(column).tobytes())
        file.write(b"".join(texts))
    return target
