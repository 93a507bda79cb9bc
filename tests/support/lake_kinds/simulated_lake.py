"""The common part of the simulated lakes of all formats: real files, of which the simulator knows every row.

Rows name their bucket and offset (`MemoryReader`), so that a file of either layout, by any writer, shows which log it is a copy of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support.clusters.memory_cluster import ids_of
from support.lake_kinds.by_hand import LakeByHand
from support.lake_kinds.failing_files import FailingFiles
from support.lakes.memory_lake import MemoryTable, Range
from tiering.lake.base import LakeView
from tiering.lake.maintenance import LakeSurvey, StoredFile
from tiering.lake.proof.row_checksum import row_checksum
from tiering.model.tables import BUCKET_COLUMN, OFFSET_COLUMN, BucketKey, TablePath

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
BITS = 32


class SimulatedLake:
    """Goes before a real `Lake`. Not thread-safe. Tables lie in the database `sales`.

    `late` has requests on their way, `faults` decides what becomes of the next one, and `meanwhile` is called before the sweep's looks.
    """

    by_hand: LakeByHand

    def __init__(self, *args: Any, folder: Path, seed: str) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder / "lake"
        self.file_system = FailingFiles(folder, Random(seed))
        self.late: list[Any] = []
        self.faults: Callable[[], str] = lambda: "ok"
        self.now: Callable[[], datetime] = lambda: LONG_AGO
        self.meanwhile: Callable[[], None] = lambda: None
        self._ranges: dict[str, tuple[Range, ...]] = {}
        super().__init__(*args)

    @property
    def tables(self) -> Mapping[TablePath, MemoryTable]:
        """The tables as they are. Markers and rows of snapshots that expired stay known."""
        raise NotImplementedError

    def tiered(self, table: MemoryTable) -> int | None:
        """The newest tiering commit."""
        raise NotImplementedError

    @property
    def files(self) -> Mapping[str, Path]:
        """All there are, by name: those of tables that got another name keep theirs."""
        with self.file_system.calm():
            return {file.name: file for file in self.folder.rglob("*") if file.is_file()}

    def rows(self, path: TablePath) -> tuple[Range, ...]:
        """Returns the rows that a reader of the head sees."""
        table = self.tables.get(path)
        return () if table is None or table.head is None else table.rows[table.head]

    def ranges_in(self, file: Path) -> tuple[Range, ...]:
        """Returns the ranges that the file's rows are copies of."""
        if file.name not in self._ranges:
            assert file.exists(), f"the lake lacks {file.name}, which a snapshot names"
            self._ranges[file.name] = tuple(_ranges_in(file))
        return self._ranges[file.name]

    def foreign_commit(self, path: TablePath) -> None:
        """Another writer rewrites the same rows."""
        with self.file_system.calm():
            if self.by_hand.exists(path) and self.by_hand.snapshots(path):
                self.by_hand.rewrite(path)

    def rename(self, path: TablePath, other: TablePath) -> None:
        """A user gives the table another name."""
        with self.file_system.calm():
            self.by_hand.rename(path, other.table_name)

    def survey(self, path: TablePath) -> LakeSurvey | None:
        self.meanwhile()
        return super().survey(path)

    def stored_files(self, view: LakeView) -> Sequence[StoredFile]:
        """All of them old: no clock may be what protects a file."""
        self.meanwhile()
        return [replace(file, modified_at=LONG_AGO) for file in super().stored_files(view)]

    def live_files(self, view: LakeView) -> Collection[str]:
        self.meanwhile()
        return super().live_files(view)

    def delete_file(self, view: LakeView, location: str) -> None:
        self.meanwhile()
        super().delete_file(view, location)

    def check_proofs(self, path: TablePath) -> int:
        """Checks that the proofs in the newest marker of a clean table count and sum the rows of the log. Returns the number of proofs."""
        table = self.tables.get(path)
        newest = None if table is None else self.tiered(table)
        if table is None or newest is None:
            return 0
        marker = table.markers[newest]
        for bucket, proof in marker.proofs.items():
            rows = pa.table({"id": ids_of(bucket.bucket_id, proof.since, marker.buckets[bucket].tiered)})
            assert (proof.rows, proof.checksum) == (rows.num_rows, row_checksum(rows)), (bucket, proof, marker)
        return len(marker.proofs)


def _ranges_in(file: Path) -> Iterator[Range]:
    rows = pq.read_table(file, partitioning=None)
    ids = np.sort(rows["id"].to_numpy())
    if OFFSET_COLUMN in rows.column_names:
        assert np.array_equal(np.sort(rows[BUCKET_COLUMN].to_numpy().astype(np.int64) << BITS | rows[OFFSET_COLUMN].to_numpy()), ids), file
    for run in np.split(ids, np.flatnonzero(np.diff(ids) != 1) + 1) if len(ids) else ():
        offset = int(run[0]) & (1 << BITS) - 1
        yield BucketKey(None, int(run[0]) >> BITS), offset, offset + len(run), file.name
