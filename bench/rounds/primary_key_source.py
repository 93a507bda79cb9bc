"""A primary-key table made from a seed: its first rows and rounds of changes, as changelogs by bucket and as files of last changes.

Of a round's keys 90 % are updated (`-U` and `+U`), 5 % deleted and 5 % new. Offsets go on from round to round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tiering.cluster.embedded.log.bucketing import bucket_ids, bucketing_for
from tiering.lake.layouts import Layout
from tiering.lake.table_options import LAYOUT
from tiering.model.tables import BucketKey, ChangeType, TableInfo, TablePath, TableType

BATCH_ROWS = 50_000
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("visits", pa.int32()),
        pa.field("amount", pa.float64()),
        pa.field("visited_at", pa.timestamp("us")),
        pa.field("name", pa.string()),
    ]
)


def primary_key_table(buckets: int, lake_format: str, layout: Layout) -> TableInfo:
    """The source table of all rounds."""
    path, created = TablePath("bench", "primary_key"), datetime(2024, 1, 1, tzinfo=UTC)
    options = {LAYOUT.name: str(layout)}
    return TableInfo(
        1, path, TableType.PRIMARY_KEY, SCHEMA, buckets, created, primary_key=("id",), lake_format=lake_format, properties=options
    )


@dataclass(frozen=True)
class Round:
    """`logs`: a bucket's changelog as an Arrow file; `merge`: the last changes as one Parquet file, `op` says which; rows afterwards."""

    logs: dict[BucketKey, Path]
    merge: Path
    changes: int
    rows_after: int


@dataclass
class PrimaryKeySource:
    """Makes rounds one after the other."""

    folder: Path
    table: TableInfo
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))
    keys: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    next_key: int = 0
    offsets: dict[int, int] = field(default_factory=dict)
    rounds: int = 0

    def load(self, rows: int) -> Round:
        """All keys are new."""
        return self._round(np.zeros(0, np.int64), np.zeros(0, np.int64), rows)

    def change(self, share: float) -> Round:
        """`share` of the keys there are."""
        count = int(len(self.keys) * share)
        touched = self.rng.choice(self.keys, count - count // 20, replace=False)
        return self._round(touched[count // 20 :], touched[: count // 20], count // 20)

    def _round(self, updated: npt.NDArray[np.int64], deleted: npt.NDArray[np.int64], inserts: int) -> Round:
        inserted = self.rng.permutation(np.arange(self.next_key, self.next_key + inserts))
        self.next_key += inserts
        self.keys = np.concatenate([np.setdiff1d(self.keys, deleted, assume_unique=True), inserted])
        self.rounds += 1
        kinds = (ChangeType.UPDATE_AFTER, ChangeType.DELETE, ChangeType.INSERT)
        ids = np.concatenate([updated, deleted, inserted])
        ops = np.repeat(np.array(kinds, np.int8), [len(updated), len(deleted), len(inserted)])
        order = self.rng.permutation(len(ids))
        ids, ops = ids[order], ops[order]
        merge = self.folder / f"merge-{self.rounds}.parquet"
        rows = self._rows(ids)
        pq.write_table(pa.table([*rows, pa.array(ops)], schema=pa.schema([*SCHEMA, ("op", pa.int8())])), merge, row_group_size=250_000)
        keys = pa.record_batch([pa.array(ids)], ["id"])
        buckets = bucket_ids(keys, bucketing_for(["id"], self.table.lake_format), ["id"], self.table.bucket_count)
        logs = {
            BucketKey(None, bucket): self._log(bucket, ids[buckets == bucket], ops[buckets == bucket])
            for bucket in range(self.table.bucket_count)
        }
        return Round(logs, merge, len(ids), len(self.keys))

    def _log(self, bucket: int, ids: npt.NDArray[np.int64], ops: npt.NDArray[np.int8]) -> Path:
        path = self.folder / f"log-{self.rounds}-{bucket}.arrow"
        with pa.ipc.new_file(path, self.table.read_schema()) as writer:
            for start in range(0, len(ids), BATCH_ROWS):
                writer.write_batch(self._batch(bucket, ids[start : start + BATCH_ROWS], ops[start : start + BATCH_ROWS]))
        return path

    def _batch(self, bucket: int, ids: npt.NDArray[np.int64], ops: npt.NDArray[np.int8]) -> pa.RecordBatch:
        twice = np.where(ops == ChangeType.UPDATE_AFTER, 2, 1)
        ids, kinds = np.repeat(ids, twice), np.repeat(ops, twice)
        kinds[np.cumsum(twice)[twice == 2] - 2] = ChangeType.UPDATE_BEFORE
        first = self.offsets.get(bucket, 0)
        self.offsets[bucket] = first + len(ids)
        offsets = np.arange(first, first + len(ids))
        times = pa.array(offsets).cast(pa.timestamp("us", "UTC"))
        system = [pa.array(np.full(len(ids), bucket, np.int32)), pa.array(offsets), times, pa.array(kinds)]
        return pa.RecordBatch.from_arrays([*self._rows(ids), *system], schema=self.table.read_schema())

    def _rows(self, ids: npt.NDArray[np.int64]) -> list[pa.Array]:
        salt = self.rounds
        names = pa.array(np.char.add("user-", ((ids * 7919 + salt) % 100_000).astype(str)), pa.string())
        visited_at = pa.array(ids * 1_000_003 + salt).cast(pa.timestamp("us"))
        return [pa.array(ids), pa.array(((ids + salt) % 1_000).astype(np.int32)), pa.array((ids + salt) * 0.37), visited_at, names]
