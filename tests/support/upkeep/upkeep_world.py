"""A coordinator whose lake tells how much of its tables is to be rewritten."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from support.clusters.memory_cluster import log_table
from support.lakes.memory_lake import MemoryLake
from support.worlds.coordinator_world import START, HandTierer, World
from tiering.coordinator.decisions.change import Context
from tiering.coordinator.decisions.records import RoundRecord, TableRecord
from tiering.coordinator.decisions.upkeep import requests
from tiering.errors import UnknownTable
from tiering.lake.base import LakeView
from tiering.lake.health.measure import FileTotals, LakeMeasure
from tiering.model.tables import TableInfo, TablePath
from tiering.model.upkeep import UpkeepOrder
from tiering.rpc.v1 import coordinator_pb2 as pb

MB = 1_000_000
TARGET_BYTES = 128 * MB


class MeasuredMemoryLake(MemoryLake):
    """A lake whose tables are as healthy as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.rewrite_bytes: dict[TablePath, int] = {}
        self.manifests = 1
        self.snapshots = 1

    def measure(self, table: TableInfo, view: LakeView) -> LakeMeasure:
        size = self.rewrite_bytes.get(table.path, 0)
        files = FileTotals(TARGET_BYTES, data_files=20, data_bytes=size, buckets=1, rewrite_bytes=size)
        return LakeMeasure(files, self.snapshots, START - timedelta(days=9), self.manifests, metadata_files=1, metadata_bytes=1)


def upkept_table(number: int = 1, **fields: Any) -> TableInfo:
    return replace(log_table(number, TablePath("sales", f"t{number}")), **({"auto_compaction": True} | fields))


class UpkeepWorld(World):
    """A world whose tables were tiered once, and are healthy."""

    lake: MeasuredMemoryLake

    def new_lake(self) -> MemoryLake:
        return MeasuredMemoryLake()

    def tier_all(self) -> HandTierer:
        """Brings all tables to the lake, so that they rest."""
        tierer = self.tierer()
        self.due()
        for _ in self.tables:
            tierer.run(tierer.get())
        return tierer

    def degrade(self, rewrite_bytes: int = 100 * MB, table: TableInfo | None = None, seconds: float = 11) -> None:
        """Makes the lake report this many bytes to rewrite, and lets the coordinator see it."""
        self.lake.rewrite_bytes[(table or self.table).path] = rewrite_bytes
        self.look(seconds)

    def look(self, seconds: float = 11) -> None:
        """The coordinator looks at the health of all tables, once it may, and at what they need."""
        self.clock.advance(seconds)
        self.coordinator.lake_health.observe()
        self.coordinator.upkeep.refresh()

    def ask_for_upkeep(self, order: UpkeepOrder, procedure: str = "rewrite_data_files") -> str:
        """A caller wants upkeep; the id of the request. Raises TablePaused, UnknownTable."""
        with self._changing() as (ctx, record):
            called = requests.request(ctx, record, order, procedure)
            self.coordinator.table_records.put(called.change)
        return called.round_id

    def pause_upkeep(self, *, pauses: bool, reason: str | None = None) -> None:
        """Pauses or resumes the upkeep of the table, as a user. Raises UnknownTable."""
        with self._changing() as (ctx, record):
            change = requests.pause_upkeep(ctx, record, reason) if pauses else requests.resume_upkeep(ctx, record)
            self.coordinator.table_records.put(change)

    @contextmanager
    def _changing(self) -> Iterator[tuple[Context, TableRecord]]:
        records = self.coordinator.table_records
        with records.changing():
            record = records.get(self.table.table_id)
            if record is None:
                raise UnknownTable("it is gone")
            yield records.context("alice"), record

    def later_with(self, tierer: HandTierer, seconds: float) -> None:
        """Time passes while the tierer sends its heartbeats; the last one is before the end."""
        while seconds > 60:
            self.later(60)
            tierer.beat()
            seconds -= 60
        self.later(seconds)

    def stored(self, round_id: str) -> RoundRecord:
        row = self.store.round(round_id)
        assert row is not None
        return row


def upkeep_stats(bytes_left: int | None = 0, **counts: int) -> pb.PbRoundStats:
    fields = {"files_before": 20, "files_after": 1, "bytes_read": 100 * MB, "bytes_written": 90 * MB} | counts
    return pb.PbRoundStats(upkeep=pb.PbUpkeepStats(bytes_left=bytes_left, **fields))


def run_upkeep(tierer: HandTierer, info: pb.PbLakeTieringTableInfo, stats: pb.PbRoundStats | None = None) -> None:
    """A whole upkeep round, well."""
    tierer.commit(info, buckets=())
    tierer.ack(info)
    end_upkeep(tierer, info, stats)


def end_upkeep(tierer: HandTierer, info: pb.PbLakeTieringTableInfo, stats: pb.PbRoundStats | None = None, **fields: Any) -> None:
    """The report of an upkeep round that ended."""
    tierer.running.pop(info.round_id, None)
    tierer.beat(finished=(tierer.about(info, stats=stats or upkeep_stats(), **fields),))
