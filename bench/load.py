"""A coordinator under load, in real time: many tables, many rounds a second, and questions of SQL meanwhile.

    .venv/bin/python bench/load.py --tables 10000 --rounds-per-second 20 --minutes 5

The coordinator is a process of its own on one core (`scripted_service.py`: real server, background and SQLite store; cluster and lake in
memory). Scripted tierers on another core do what tierers do: heartbeats, plan, fence, commit, ack. Tables become due evenly, so that the
coordinator is asked for so many rounds a second; a twentieth of them fails. Two readers ask `lake_tiering_status` by filters all the time,
and now and then the history of a table.

Targets: heartbeats that are answered at once p99 < 50 ms, as the tierers see them; SELECTs by a filter p99 < 30 ms in the service, from the
call to its last byte (what the readers see is printed, too: they share a core with all tierers); memory and store bounded. Prints a table;
the last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc.aio
import idle
import scripted_service as service
from rich.console import Console
from rich.table import Table
from running.figures import finish, parse, rounded, shown, verdict

from sys_tables.rpc.v1 import sys_catalog_pb2
from sys_tables.rpc.v1.sys_catalog_pb2_grpc import SysCatalogStub
from tiering.coordinator.decisions import waits
from tiering.rpc.v1 import common_pb2
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.rpc.v1.common_pb2 import Literal
from tiering.rpc.v1.coordinator_pb2_grpc import TieringCoordinatorStub
from tiering.wire.model_codecs import OFFSETS

TIERERS, SLOTS = 20, 4
WORK_SECONDS = (0.05, 0.6)
FAILING = 0.05
POLL_SECONDS = 1.0
LONG_POLL_MS = 30_000
BOOT_SECONDS = 15.0
"""Until the first table is begun: the service is up by then."""
EARLY_SECONDS = waits.FIRST_ROUND_MS / 1_000
"""A table's first round is begun so long before it is due. Without it that many seconds' tables would be begun at once, and be queued for
minutes: another load than so many rounds a second."""
SELECT_SECONDS = 0.2
HEARTBEAT_TARGET_MS, SELECT_TARGET_MS = 50.0, 30.0


@dataclass
class Measured:
    """Milliseconds of each call, and how many rounds ended how."""

    heartbeat_ms: list[float] = field(default_factory=list)
    select_ms: list[float] = field(default_factory=list)
    history_ms: list[float] = field(default_factory=list)
    service_ms: dict[str, list[float]] = field(default_factory=dict)
    """Durations of each system table's SELECTs, in the service."""
    assigned: list[tuple[int, float, float | None]] = field(default_factory=list)
    """Table, when it was given to a tierer (steady seconds), and how long that heartbeat took; None of a held one."""
    ended: list[float] = field(default_factory=list)
    """When each round ended well, in steady seconds."""
    rounds: int = 0
    failed: int = 0
    errors: list[str] = field(default_factory=list)


class ScriptedTierer:
    """One tierer: a loop of heartbeats, and a task for each round."""

    def __init__(
        self,
        name: str,
        channel: grpc.aio.Channel,
        cluster: service.TickingCluster,
        measured: Measured,
        rng: random.Random,
        failing: float = FAILING,
    ) -> None:
        self._name, self._cluster, self._measured, self._random, self._failing = name, cluster, measured, rng, failing
        self._stub: Any = TieringCoordinatorStub(channel)
        self._begin, self._commit = service.lake_call(channel, "Begin"), service.lake_call(channel, "Commit")
        self._sequence = self._epoch = 0
        self._running: dict[str, pb.PbLakeTieringTableInfo] = {}
        self._finished: list[pb.PbHeartbeatReqForTable] = []
        self._failed: list[pb.PbHeartbeatReqForTable] = []
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        while True:
            try:
                quiet = await self._beat()
            except grpc.aio.AioRpcError as error:
                self._measured.errors.append(error.details() or str(error.code()))
                quiet = True
            if quiet:
                try:
                    await asyncio.wait_for(self._wake.wait(), POLL_SECONDS)
                except TimeoutError:
                    continue

    async def _beat(self) -> bool:
        """One heartbeat; whether the next may wait."""
        self._wake.clear()
        self._sequence += 1
        finished, failed = self._finished, self._failed
        self._finished, self._failed = [], []
        held = not finished and not failed and not self._running
        request = pb.LakeTieringHeartbeatRequest(
            tierer=pb.PbTierer(tierer_id=self._name, sequence=self._sequence, started_at_ms=1, incarnation=self._name, slots=SLOTS),
            tiering_tables=[self._about(info) for info in self._running.values()],
            finished_tables=finished,
            failed_tables=failed,
            request_table=len(self._running) < SLOTS,
            max_wait_ms=LONG_POLL_MS if held else 0,
        )
        began = time.perf_counter()
        answer = await self._stub.LakeTieringHeartbeat(request)
        answered = time.perf_counter()
        if not held:
            self._measured.heartbeat_ms.append((answered - began) * 1_000)
        self._epoch = answer.coordinator_epoch
        if not answer.HasField("tiering_table"):
            return not finished and not failed
        info = answer.tiering_table
        self._measured.assigned.append((info.table_id, answered, None if held else (answered - began) * 1_000))
        self._running[info.round_id] = info
        task = asyncio.create_task(self._round(info))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return False

    async def _round(self, info: pb.PbLakeTieringTableInfo) -> None:
        report = self._about(info)
        try:
            ended_well = await self._tier(info)
        except Exception as error:  # a defect of the bench, too, is a round that failed
            self._measured.errors.append(f"{type(error).__name__}: {error}")
            ended_well = False
        del self._running[info.round_id]
        if ended_well:
            report.stats.CopyFrom(pb.PbRoundStats(splits=1, records_written=10, files_written=1, bytes_written=1_000))
            self._finished.append(report)
            self._measured.rounds += 1
            self._measured.ended.append(time.perf_counter())
        else:
            report.error_message, report.error_class, report.error_phase = "a scripted failure", "RoundFailed", "WRITE"
            report.error_retryable = True
            self._failed.append(report)
            self._measured.failed += 1
        self._wake.set()

    async def _tier(self, info: pb.PbLakeTieringTableInfo) -> bool:
        """Plan, work, fence, commit, ack."""
        base = await self._begin(info.table_id)
        end = self._cluster.end(info.table_id)
        ref, offsets = self._ref(info), OFFSETS.to_pb({service.ONLY: end})
        plan = pb.RecordPlanRequest(round=ref, lake_table_uuid=base.uuid, planned_stops=offsets, splits=1)
        if base.head is not None:
            plan.passed_head = base.head
        await self._stub.RecordPlan(plan)
        await asyncio.sleep(self._random.uniform(*WORK_SECONDS))
        if self._random.random() < self._failing:
            return False
        commit = service.next_commit(self._cluster, info.table_id, base, info.round_id, info.tiering_epoch, end)
        proposed = pb.BeginLakeCommitRequest(
            round=ref, base_round_id=commit.marker.base_round_id, base_tag=base.tag, offsets=offsets, records=10, files=1
        )
        if not (await self._stub.BeginLakeCommit(proposed)).granted:
            return False
        snapshot_id = await self._commit(info.table_id, commit)
        ack = pb.CommitLakeSnapshotRequest(round=ref, marker_round_id=info.round_id, lake_table_uuid=base.uuid)
        ack.marker.lake_snapshot_id = snapshot_id
        ack.marker.offsets.extend(offsets)
        await self._stub.CommitLakeSnapshot(ack)
        return True

    def _about(self, info: pb.PbLakeTieringTableInfo) -> pb.PbHeartbeatReqForTable:
        return pb.PbHeartbeatReqForTable(
            table_id=info.table_id, coordinator_epoch=self._epoch, tiering_epoch=info.tiering_epoch, round_id=info.round_id
        )

    def _ref(self, info: pb.PbLakeTieringTableInfo) -> pb.PbRound:
        return pb.PbRound(
            table_id=info.table_id,
            coordinator_epoch=self._epoch,
            tiering_epoch=info.tiering_epoch,
            round_id=info.round_id,
            tierer_id=self._name,
            incarnation=self._name,
        )


def equal(column: str, text: str) -> list[common_pb2.Filter]:
    """`column = 'text'`, as the plugin asks it."""
    return [common_pb2.Filter(column=column, operator=common_pb2.Filter.EQUAL, values=[Literal(text=text)])]


async def read(stub: Any, table: str, filters: Sequence[common_pb2.Filter], times: list[float]) -> None:
    """A SELECT by a filter, to its last byte."""
    began = time.perf_counter()
    async for _ in stub.ReadTable(sys_catalog_pb2.ReadTableRequest(namespace="sys", name=table, null_columns=True, filters=filters)):
        pass
    times.append((time.perf_counter() - began) * 1_000)


async def ask(channel: grpc.aio.Channel, tables: int, measured: Measured, rng: random.Random) -> None:
    """One reader: names and a rare status of the tables in turn, now and then the history of a table."""
    stub: Any = SysCatalogStub(channel)
    for turn in range(1, 1 << 62):
        name = f"t{rng.randrange(1, tables + 1):05d}"
        await read(stub, "lake_tiering_status", equal("status", "Failed") if turn % 2 else equal("table_name", name), measured.select_ms)
        if turn % 5 == 0:
            await read(stub, "tiering_rounds", equal("table_name", name), measured.history_ms)
        await asyncio.sleep(SELECT_SECONDS)


async def drive(uri: str, cluster: service.TickingCluster, arguments: argparse.Namespace, pid: int) -> tuple[Measured, list[float]]:
    """All tierers and readers, for the time; memory of the coordinator in MB, at first and then ten times."""
    measured, memory = Measured(), [idle.memory_mb(pid)]
    channels = [grpc.aio.insecure_channel(uri) for _ in range(4)]
    loops = [
        ScriptedTierer(f"tierer-{number}", channels[number % 3], cluster, measured, random.Random(number)).run()
        for number in range(TIERERS)
    ]
    loops += [ask(channels[3], arguments.tables, measured, random.Random(-number)) for number in (1, 2)]
    tasks = [asyncio.ensure_future(loop) for loop in loops]
    for _ in range(10):
        await asyncio.wait(tasks, timeout=arguments.minutes * 6, return_when=asyncio.FIRST_EXCEPTION)
        if broken := [task for task in tasks if task.done()]:
            broken[0].result()
        memory.append(idle.memory_mb(pid))
    await end(tasks)
    measured.service_ms = await service.lake_call(channels[3], "Selects")()
    for channel in channels:
        await channel.close()
    return measured, memory


async def end(tasks: Sequence[asyncio.Future[None]]) -> None:
    """Cancels tasks until all are over: `wait_for` of Python 3.11 swallows a cancellation that comes together with its result."""
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=1)


def quantile(values: Sequence[float], percent: int) -> float | None:
    """A percentile, and at most the largest value; None of less than two values."""
    return min(statistics.quantiles(values, n=100)[percent - 1], max(values)) if len(values) > 1 else None


def figures_of(measured: Measured, memory: Sequence[float], seconds: float, cpu: float, store_bytes: int) -> dict[str, float | None]:
    ended = measured.rounds + measured.failed
    return {
        "rounds_a_second": ended / seconds,
        "failed_rounds": measured.failed,
        "errors_of_calls": len(measured.errors),
        "heartbeats": len(measured.heartbeat_ms),
        **{f"heartbeat_p{percent}_ms": quantile(measured.heartbeat_ms, percent) for percent in (50, 95, 99)},
        "selects": len(measured.select_ms),
        **{f"select_p{percent}_ms": quantile(measured.select_ms, percent) for percent in (50, 95, 99)},
        **{f"service_select_p{percent}_ms": quantile(measured.service_ms["lake_tiering_status"], percent) for percent in (50, 95, 99)},
        "history_p99_ms": quantile(measured.history_ms, 99),
        "coordinator_cpu_share": cpu / seconds,
        "memory_mb_at_first": memory[0],
        "memory_mb_half_way": memory[len(memory) // 2],
        "memory_mb_at_last": memory[-1],
        "store_mb": store_bytes / 1e6,
        "store_kb_a_round": store_bytes / 1e3 / max(ended, 1),
    }


def measure(arguments: argparse.Namespace) -> tuple[Measured, dict[str, float | None]]:
    """One coordinator, driven for the time."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    start, freshness = time.time() + BOOT_SECONDS, arguments.tables / arguments.rounds_per_second
    begin, first_due = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(start + EARLY_SECONDS, UTC)
    cluster = service.TickingCluster(service.infos(arguments.tables, freshness, first_due), begin, 10.0)
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        log = Path(folder) / "service.log"
        options = {"store": folder, "tables": arguments.tables, "freshness": freshness, "start": start, "first-due": EARLY_SECONDS}
        command = [text for name, value in (options | {"core": cores[0]}).items() for text in (f"--{name}", str(value))]
        with service.process(command, log) as coordinator:
            uri = idle.wait_for_line(log, "lakeward is ready: ", seconds=300).split(": ")[1].strip()
            time.sleep(max(0.0, start - time.time()))
            cpu = idle.cpu_seconds(coordinator.pid)
            gc.collect()
            gc.freeze()  # a pause of this process would count as the coordinator's
            measured, memory = asyncio.run(drive(uri, cluster, arguments, coordinator.pid))
            cpu = idle.cpu_seconds(coordinator.pid) - cpu
        store_bytes = sum(file.stat().st_size for file in Path(folder).glob("coordinator.db*"))
    return measured, figures_of(measured, memory, arguments.minutes * 60, cpu, store_bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--rounds-per-second", type=float, default=20.0)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--work", type=Path, help="folder for the store; default: a temporary one")
    arguments = parse(parser, tables=40, rounds_per_second=4.0, minutes=0.5)
    before = os.getloadavg()[0]
    measured, figures = measure(arguments)
    report = {name: rounded(value) for name, value in figures.items()}
    finish({"bench": "load", "tables": arguments.tables, "minutes": arguments.minutes, **report}, lambda: show(measured, figures, before))


def show(measured: Measured, figures: dict[str, float | None], load_before: float) -> None:
    """The figures, some errors of calls, and the targets."""
    table = Table("figure", "value")
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), shown(value))
    Console().print(table)
    for error in dict.fromkeys(measured.errors[:5]):
        print(f"a call failed: {error}")
    heartbeats = verdict(figures["heartbeat_p99_ms"], HEARTBEAT_TARGET_MS)
    selects = verdict(figures["service_select_p99_ms"], SELECT_TARGET_MS)
    print(f"targets: heartbeats {heartbeats}, SELECTs {selects}; load before {load_before:.1f}, after {os.getloadavg()[0]:.1f} (1 min)")


if __name__ == "__main__":
    main()
