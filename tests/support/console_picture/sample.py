"""A service with sample tables after six hours of rounds, by a clock that is set by hand: each run has the same times and numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from support.background import in_turns
from support.clusters.memory_cluster import log_table
from support.operators import pause
from support.worlds.coordinator_world import START, HandTierer, World
from tiering.coordinator.options import CoordinatorOptions
from tiering.model.tables import BucketKey, Offsets, TableInfo, TablePath
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.model_codecs import OFFSETS

ROWS_PER_MINUTE = {
    "iot.readings": 5_400,
    "shop.customers": 40,
    "shop.orders": 900,
    "shop.payments": 870,
    "web.clicks": 12_600,
    "web.sessions": 310,
}
FRESHNESS_MS = 300_000
OUTAGE = range(150, 175)
"""Minutes in which the rounds of a table fail."""
HOURS = 6
ROUND_SECONDS = 4
SLOTS = 4


class Appends:
    """The times of records, as `MemoryCluster.oldest_timestamps` reports them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._batches: dict[tuple[int, BucketKey], list[tuple[int, datetime]]] = {}

    def append(self, table: TableInfo, records: int) -> None:
        """Adds records to both buckets."""
        for bucket in (0, 1):
            key = BucketKey(None, bucket)
            self._world.append(records // 2, bucket, table)
            end = self._world.cluster.logs[table.table_id][key][1]
            self._batches.setdefault((table.table_id, key), []).append((end, self._world.clock.now()))

    def oldest(self, table: TableInfo, offsets: Offsets) -> Mapping[BucketKey, datetime]:
        """Returns the time of the first record at or after each offset."""
        times = {}
        for bucket, offset in offsets.items():
            later = [at for end, at in self._batches.get((table.table_id, bucket), ()) if end > offset]
            if later:
                times[bucket] = later[0]
        return times


class SampleTierer(HandTierer):
    """A tierer whose rounds take some seconds and report the rows that they wrote."""

    written = 0

    def begin(self, info: pb.PbLakeTieringTableInfo, request: Any) -> pb.BeginLakeCommitResponse:
        self.written = sum(stop - start for _, start, stop, _ in request.ranges)
        message = pb.BeginLakeCommitRequest(
            round=self.ref(info), base_round_id=request.marker.base_round_id, base_tag=request.tiered, records=self.written, files=2
        )
        message.offsets.extend(OFFSETS.to_pb({bucket: tiered.tiered for bucket, tiered in request.marker.buckets.items()}))
        return self.world.coordinator.commits.begin_lake_commit(message)

    def run(self, info: pb.PbLakeTieringTableInfo) -> None:
        """Runs a round that succeeds."""
        self.world.clock.advance(ROUND_SECONDS)
        self.commit(info)
        self.ack(info)
        self.running.pop(info.round_id, None)
        rows = self.written
        stats = pb.PbRoundStats(splits=2, records_read=rows, records_written=rows, files_written=2, bytes_written=40 * rows)
        self.beat(finished=(self.about(info, stats=stats),))


def sample_service(hours: int = HOURS) -> World:
    """Returns a coordinator whose tables kept their promise, broke it for a while, fail, or are paused."""
    tables = tuple(
        replace(log_table(number, TablePath(*name.split("."))), freshness_ms=FRESHNESS_MS) for number, name in enumerate(ROWS_PER_MINUTE, 1)
    )
    world = World(tables, CoordinatorOptions(), rows=0)
    appends = Appends(world)
    world.cluster.oldest_timestamps = appends.oldest  # type: ignore[method-assign]
    in_turns(world.coordinator)  # no thread observes anything at a time of its own
    tierer = SampleTierer(world, "tierer-1")
    tierer.slots = SLOTS
    begin = world.clock.now() - timedelta(hours=HOURS - hours)
    for minute in range(60 * (HOURS - hours), 60 * HOURS):
        for table in tables:
            appends.append(table, rows_of(str(table.path), minute))
        world.coordinator.observer.observe_all()
        _run_rounds(world, tierer, tables, begin + timedelta(minutes=minute + 1))
    return _as_of_now(world, tierer, tables)


def rows_of(name: str, minute: int) -> int:
    """Returns the rows that a table gets in a minute: more around the middle of the hours."""
    return int(ROWS_PER_MINUTE[name] * (1 + 0.6 * (1 - abs(minute - 30 * HOURS) / (30 * HOURS)) + (minute * 7 % 11) / 40))


def _run_rounds(world: World, tierer: SampleTierer, tables: tuple[TableInfo, ...], until: datetime) -> None:
    """Runs each round when it is due, or when it is retried."""
    while world.clock.now() < until:
        due = min((record.due_deadline for record in map(world.record, tables) if record.due_deadline is not None), default=until)
        world.later(max(10, (min(due, until) - world.clock.now()).total_seconds()))
        while tierer.beat(request=True).HasField("tiering_table"):
            [info] = tierer.running.values()
            _run_round(tierer, info)


def _run_round(tierer: SampleTierer, info: pb.PbLakeTieringTableInfo) -> None:
    name = f"{info.path.database_name}.{info.path.table_name}"
    minute = (tierer.world.clock.now() - START) // timedelta(minutes=1)
    if name == "web.clicks" and minute in OUTAGE:
        tierer.fail(info, error_class="LakeUnavailable", error_message="the lake's storage answered 503: slow down")
    elif name == "iot.readings" and minute >= 60 * HOURS - 24:
        text = "the lake column 'celsius' is a string, and the source has a double"
        tierer.fail(info, error_class="SchemaDrift", error_message=text, error_phase="PLAN", error_retryable=False)
    else:
        tierer.run(info)


def _as_of_now(world: World, tierer: SampleTierer, tables: tuple[TableInfo, ...]) -> World:
    payments = next(table for table in tables if table.path.table_name == "payments")
    pause(world.coordinator, payments.path, "ann", "until the audit ends")
    world.later(70)
    while tierer.beat(request=True).HasField("tiering_table"):
        *_, info = tierer.running.values()
        if len(tierer.running) == 1:
            tierer.plan(info)
            report = pb.ReportProgressRequest(round=tierer.ref(info), splits_done=1, splits_total=2, records_done=600, records_total=1_000)
            world.coordinator.progress.report(report)
    world.coordinator.observer.observe_all()
    return world
