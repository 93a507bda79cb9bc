"""A real deployment whose tierers race for tables: the embedded cluster, Iceberg in files, SQLite as store, gRPC, a thread a tierer.

Some die and are replaced, some fall asleep over a granted commit and send it when another tierer has their table, answers of coordinator
and lake get lost, and the coordinator starts anew. What tierers do is in `history`.
"""

from __future__ import annotations

import itertools
import random
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from support.histories.history import History
from support.histories.recorded import RecordedTransport, RecordsHistory
from support.running.processes import wait_for
from support.services.served import at_uri
from support.worlds.lake_world import LakeWorld
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.clock import RandomIds, SystemClock
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.coordinator.memory.sql_store import SqlStore, sqlite_url
from tiering.coordinator.options import CoordinatorOptions
from tiering.coordinator.server.coordinator import Coordinator
from tiering.lake.iceberg.lake import IcebergLake
from tiering.lake.marker import Marker
from tiering.model.tables import TableInfo
from tiering.round.lease_keeper import LeaseKeeper
from tiering.round.runner import RoundEnvironment
from tiering.round.tasks.inline_runner import InlineTaskRunner
from tiering.round.tierer import Tierer, TiererOptions
from tiering.round.transport import GrpcTransport

SERVICE_TIMEOUT_MS = 1_500
OPTIONS = CoordinatorOptions(
    service_timeout_ms=SERVICE_TIMEOUT_MS,
    tick_interval_ms=20,
    discovery_interval_ms=200,
    backoff_min_ms=20,
    backoff_max_ms=100,
    min_round_duration_ms=1_000,
)
FRESHNESS = "1 s"
PATIENCE_SECONDS = 60
LOST_SHARE = 0.1
ASLEEP_SHARE = 0.3
INLINE_BYTES = 1 << 40


class RecordedIcebergLake(RecordsHistory, IcebergLake):
    """The lake in files."""


@dataclass
class RacingTierer:
    """One tierer process: a thread, and threads of its rounds."""

    tierer: Tierer
    grpc: GrpcTransport
    transport: RecordedTransport
    thread: threading.Thread

    def die(self) -> None:
        """Nothing of it reaches the coordinator any more. What it has begun ends by itself."""
        self.transport.is_dead = True
        self.tierer.stop()
        self.grpc.stop()

    def end(self) -> None:
        """Returns when it has ended."""
        self.tierer.stop()
        self.thread.join(PATIENCE_SECONDS)
        assert not self.thread.is_alive()
        self.grpc.stop()
        self.grpc.close()


class RecordedDeployment(LakeWorld):
    """See the module. `seed` decides who dies when; how threads go on meanwhile is the machine's."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.history, self._random, self._lock = History(), random.Random(seed), threading.Lock()
        self._folder, self._numbers, self._rows = folder, itertools.count(1), itertools.count()
        self._is_calm = False
        self.asleep = 0
        """Commits that were sent late."""
        self._living: list[RacingTierer] = []
        self._dead: list[RacingTierer] = []
        super().__init__(folder, SqlStore(sqlite_url(folder / "coordinator.db")))
        self._service = ExitStack()
        self._port = HeldPort()
        self._uri = self._serve()

    def _open_cluster(self, folder: Path) -> EmbeddedStorage:
        return EmbeddedStorage(folder, SystemClock(), RandomIds(), self.lake.check_schema)

    def _start(self) -> Coordinator:
        return Coordinator(self.store, self.owner, lambda _: self.lake, OPTIONS, clock=SystemClock(), ids=RandomIds(), jitter=lambda: 0.5)

    def race(self, tables: list[TableInfo], tierers: int, turns: int) -> None:
        """Runs `tierers` tierers while rows are written. Then the faults stop, and everything is tiered."""
        for _ in range(tierers):
            self._living.append(self._start_tierer())
        for turn in range(turns):
            landed = self.history.count("commit", "landed")
            self._write(tables)
            if turn % 3 == 1:
                self._replace(self._random.choice(self._living))
            if turn == turns // 2:
                self._restart_service()
            wait_for("a commit", lambda before=landed: self.history.count("commit", "landed") > before, PATIENCE_SECONDS)  # type: ignore[misc]
        self._is_calm = True
        self._write(tables)
        for table in tables:
            wait_for(f"all of {table.path}", lambda table=table: self._is_tiered(table), PATIENCE_SECONDS)  # type: ignore[misc]

    def close(self) -> None:
        self._is_calm = True
        for tierer in (*self._living, *self._dead):
            tierer.end()
        self._service.close()
        self._port.close()
        self.store.close()
        self.owner.close()

    def _write(self, tables: list[TableInfo]) -> None:
        for table in tables:
            self.append(table, 100 * next(self._rows), 40)

    def _is_tiered(self, table: TableInfo) -> bool:
        view = self.lake.view(table.path)
        marker = None if view is None else view.marker
        return marker is not None and {bucket.bucket_id: entry.tiered for bucket, entry in marker.buckets.items()} == self.ends(table)

    def _happens(self, share: float) -> bool:
        with self._lock:
            return not self._is_calm and self._random.random() < share

    def _restart_service(self) -> None:
        self._service.close()
        self.store.close()
        self.store = SqlStore(sqlite_url(self._folder / "coordinator.db"))
        self.coordinator = self._start()
        self._serve()

    def _serve(self) -> str:
        return self._service.enter_context(at_uri(self, port=self._port.number))

    def _replace(self, tierer: RacingTierer) -> None:
        with self._lock:
            self._living.remove(tierer)
            self._dead.append(tierer)
        tierer.die()
        self._living.append(self._start_tierer())

    def _start_tierer(self) -> RacingTierer:
        name, clock, inline = f"tierer-{next(self._numbers)}", SystemClock(), InlineTaskRunner()
        grpc = GrpcTransport(self._uri, name, f"process of {name}")
        transport = RecordedTransport(grpc, self.history, lambda: self._happens(LOST_SHARE))
        lake = RecordedIcebergLake(self.lake_properties)
        lake.history, lake.loses_answer = self.history, lambda: self._happens(LOST_SHARE)
        leases = LeaseKeeper(transport, clock, f"lease of {name}")
        world = RoundEnvironment(transport, self.storage, lambda _: lake, inline, inline, clock, RandomIds(), INLINE_BYTES, leases)
        options = TiererOptions(
            name, "here", "app", "1", 1, f"process of {name}", slots=2, poll_ms=20, service_timeout_ms=SERVICE_TIMEOUT_MS, stop_grace_ms=1
        )
        tierer = Tierer(world, options)
        racing = RacingTierer(tierer, grpc, transport, threading.Thread(target=tierer.run, name=name, daemon=True))
        lake.before_commit = lambda marker: self._sleep_over(marker, racing)
        racing.thread.start()
        return racing

    def _sleep_over(self, marker: Marker, tierer: RacingTierer) -> None:
        """At times a tierer hears and says nothing until its table is another tierer's; then it sends the commit that it was granted."""
        if not self._happens(ASLEEP_SHARE) or tierer not in self._living or len(self._living) == 1:
            return
        path = next(table.path for table in self.storage.tables() if table.table_id == marker.table_id)
        self._replace(tierer)
        self.asleep += 1
        wait_for(f"another round of {path}", lambda: self.history.claimed_since(path, marker.tiering_epoch), PATIENCE_SECONDS)
