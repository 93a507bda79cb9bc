"""Tables for bench/validate.py: a log in an embedded cluster's folder, and its lake copy as a round's tasks and committer write it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from rounds.sources import BATCH_ROWS, FLIGHTS, Source

from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.lake.base import Committable, WriterInitContext
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import advanced
from tiering.lake.registry import local_lake_properties
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TableInfo, TablePath
from tiering.round.ports import SplitTask
from tiering.round.tasks.split_work import run_split

BUCKETS = 4
CHANGED_SHARE = 0.1
DELETED_SHARE = 0.01
"""Share of the keys that are deleted, in a second round."""


@dataclass
class World:
    """One data folder: a cluster, a lake, and rounds between them in this process, without a coordinator."""

    folder: Path
    storage: EmbeddedStorage = field(init=False)
    lake: IcebergLake = field(init=False)
    rounds: int = 0

    def __post_init__(self) -> None:
        self.storage = EmbeddedStorage(self.folder / "cluster")
        self.storage.create_database("bench", ignore_if_exists=True)
        self.lake_properties = local_lake_properties(self.folder)
        self.lake = IcebergLake(self.lake_properties)

    def close(self) -> None:
        self.storage.close()

    def table(self, name: str, schema: pa.Schema, primary_key: tuple[str, ...] = ()) -> TableInfo:
        """A new one."""
        return self.storage.create_table(TablePath("bench", name), TableSpec(schema, BUCKETS, primary_key=primary_key))

    def tier(self, table: TableInfo) -> int:
        """One round to the log's end; the lake's rows afterwards."""
        self.rounds += 1
        view = self.lake.ensure_table(table)
        before = {} if view.marker is None else view.marker.buckets
        logs = self.storage.offsets(table)
        bases = self.lake.bucket_files(table, view, dict.fromkeys(logs)) if table.primary_key else {}
        factory, round_id = self.lake.tiering_factory(table), f"r{self.rounds}"
        results = []
        for bucket, log in logs.items():
            start = before[bucket].tiered if bucket in before else log.log_start
            split = TieringLogSplit(table.path, bucket, None, start, log.log_end, log.log_end)
            context = WriterInitContext(table, view.table_uuid, bucket, None, round_id, "", bases.get(bucket, b""))
            outcome = run_split(SplitTask(self.storage.reader(table, split), split, factory, context), lambda: False)
            if outcome.error is not None or outcome.result is None:
                raise outcome.error or SystemExit("a split was not read")
            results.append(outcome.result)
        committer = factory.create_committer()
        after: dict[BucketKey, TieredRange] = {result.bucket: TieredRange(0, result.reached_offset) for result in results}
        base_round = None if view.marker is None else view.marker.round_id
        proofs = advanced(view.proofs, before, after, results, round_id)
        marker = Marker(self.storage.cluster_id, table.table_id, view.table_uuid, round_id, self.rounds, base_round, after, proofs=proofs)
        committer.commit(Committable(round_id, tuple(results)), view, marker)
        left = self.lake.view(table.path)
        return 0 if left is None else left.records or 0


def log_table(world: World, source: Source, rows: int, scratch: Path) -> tuple[TableInfo, int]:
    """About `rows` rows, tiered in one round; how many there are."""
    table, written = world.table("rows", source.schema), 0
    writer = LogWriter(world.storage, table.path, "bench")
    for batch in source.batches(rows, scratch):
        writer.append(batch)
        written += batch.num_rows
    return table, _expect(world.tier(table), written)


def primary_key_table(world: World, keys: int, scratch: Path) -> tuple[TableInfo, int]:
    """`keys` flights by their id, in one round; in a second one some are changed and some deleted. Rows that are left."""
    schema = pa.schema([FLIGHTS.schema.field(0).with_nullable(False), *list(FLIGHTS.schema)[1:]])
    table = world.table("primary_key", schema, primary_key=("flight_id",))
    writer = LogWriter(world.storage, table.path, "bench")
    for batch in FLIGHTS.batches(keys, scratch):
        writer.upsert(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
    _expect(world.tier(table), keys)
    chosen = np.random.default_rng(7).permutation(keys)[: int(keys * (CHANGED_SHARE + DELETED_SHARE))]
    deleted, changed = np.split(chosen, [int(keys * DELETED_SHARE)])
    ids, rest = np.sort(changed), iter(FLIGHTS.batches(len(changed), scratch))
    for part, batch in zip(_parts(ids), rest, strict=True):
        writer.upsert(pa.RecordBatch.from_arrays([pa.array(part), *batch.columns[1:]], schema=schema))
    for part in _parts(deleted):
        writer.delete(pa.record_batch([pa.array(part)], schema=pa.schema([schema.field(0)])))
    return table, _expect(world.tier(table), keys - len(deleted))


def _parts(ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    yield from (ids[start : start + BATCH_ROWS] for start in range(0, len(ids), BATCH_ROWS))


def _expect(rows: int, wanted: int) -> int:
    """A benchmark of a wrong answer is worth nothing."""
    if rows != wanted:
        raise SystemExit(f"the lake has {rows} rows instead of {wanted}")
    return rows


MakeTable = Callable[[World, int, Path], tuple[TableInfo, int]]
