"""A coordinator and tierers as real processes on one data folder, and what tests do with them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from support.lake_kinds.by_hand import LakeByHand, lake_by_hand
from support.lake_kinds.kinds import ICEBERG, LakeKind
from support.lakes.lake_proof import assert_every_offset_once
from support.running.processes import Process, wait_for
from tiering import crash_points
from tiering.cli.fluss_server.held_ports import HeldPort
from tiering.cli.processes.data_folder import DataFolder
from tiering.client import LakewardClient
from tiering.cluster.embedded.rpc.client import RemoteEmbeddedCluster
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec
from tiering.model.status import TableStatus
from tiering.model.tables import TablePath

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.string())])
KEYED = pa.schema([SCHEMA.field("id").with_nullable(False), SCHEMA.field("text")])
"""Columns of a table with the primary key `id`."""
SERVICE_TIMEOUT_MS = 3_000
BUCKETS = 3
LAKEWARD = ("-m", "tiering.cli.main")
INLINE_TIERER = ("-m", "support.faulty.inline_tierer")
LONG_AGO = datetime.min.replace(tzinfo=UTC)


def rows(start: int, count: int) -> pa.Table:
    """Rows `start .. start+count-1`."""
    return pa.table({"id": range(start, start + count), "text": [f"row {number}" for number in range(start, start + count)]}, schema=SCHEMA)


@dataclass
class Deployment:
    """Processes on `folder`. Everything started is closed by `close`."""

    folder: Path
    uri: str = ""
    processes: list[Process] = field(default_factory=list)
    appended_at: datetime = LONG_AGO
    held_ports: list[HeldPort] = field(default_factory=list)
    """Reserved ports of coordinators: a killed one finds its port again, whatever else this machine runs."""

    @property
    def data(self) -> DataFolder:
        return DataFolder(self.folder / "data")

    @property
    def lake_properties(self) -> Mapping[str, str]:
        """Properties with which a test reads the lake."""
        return self.data.lake_properties

    def start_coordinator(self, *options: str, port: int = 0, crash_point: str | None = None, **env: str) -> Process:
        """Waits until it is ready, unless it is to crash: that may be before."""
        arguments = (*self.coordinator_arguments(port), *options)
        if crash_point is not None:
            return self._start(*arguments, env={**env, crash_points.VARIABLE: crash_point})
        process = self._start(*arguments, env=env)
        self.uri = process.wait_ready()
        return process

    def coordinator_arguments(self, port: int) -> tuple[str, ...]:
        """Arguments of a coordinator on the folder; `port` 0: a reserved one."""
        timeout = ("--service-timeout-ms", str(SERVICE_TIMEOUT_MS))
        return ("coordinator", "--data", str(self.data.root), "--port", str(port or self.held_port()), *timeout)

    def held_port(self) -> int:
        """A port that no other program gets until `close`."""
        self.held_ports.append(HeldPort())
        return self.held_ports[-1].number

    @property
    def coordinator(self) -> Process:
        """The one that was started last."""
        return next(process for process in reversed(self.processes) if "coordinator" in process.log.name)

    def kill_coordinator(self) -> None:
        """A SIGKILL."""
        if self.coordinator.popen.poll() is None:
            self.coordinator.send(signal.SIGKILL)
        self.coordinator.wait_ended()

    @property
    def port(self) -> int:
        """The coordinator's, to start another one there."""
        return int(self.uri.rpartition(":")[2])

    def start_up(self, *options: str) -> Process:
        """Coordinator and tierer as one `lakeward up`; waits until it is ready."""
        process = self._start("up", "--data", str(self.data.root), "--port", "0", "--master", "local[1]", *options)
        self.uri = process.wait_ready()
        return process

    def lakeward(self, *arguments: str, status: int = 0) -> str:
        """Runs a command against the service; what it printed. Fails the test on another exit status."""
        process = self._start(*arguments, "--uri", self.uri)
        assert process.wait_ended() == status, process.output()
        return process.output()

    def start_tierer(self, name: str, *options: str, crash_point: str | None = None) -> Process:
        """Starts; does not wait."""
        env = {} if crash_point is None else {crash_points.VARIABLE: crash_point}
        return self._start("tierer", "--uri", self.uri, "--tierer-id", name, *(options or ("--master", "local[1]")), env=env)

    def start_inline_tierer(self, name: str, uri: str | None = None, crash_point: str | None = None, **env: str) -> Process:
        """Starts; does not wait. `uri`: where it finds the coordinator, as behind a network of the test."""
        environment = {
            "PYTHONPATH": os.pathsep.join(sys.path),
            **env,
            **({} if crash_point is None else {crash_points.VARIABLE: crash_point}),
        }
        return self.start_program(*INLINE_TIERER, uri or self.uri, name, log_name="tierer", env=environment)

    def _start(self, *arguments: str, env: Mapping[str, str] | None = None) -> Process:
        return self.start_program(*LAKEWARD, *arguments, log_name=arguments[0], env=env)

    def start_program(self, *arguments: str, log_name: str, env: Mapping[str, str] | None = None) -> Process:
        """Starts Python with these arguments; does not wait."""
        process = Process(*arguments, log=self.folder / f"{len(self.processes)}-{log_name}.log", env=env, program=(sys.executable,))
        self.processes.append(process)
        return process

    def cluster(self) -> RemoteEmbeddedCluster:
        return RemoteEmbeddedCluster(self.uri)

    def create(
        self,
        path: TablePath,
        freshness: str = "1 s",
        schema: pa.Schema = SCHEMA,
        buckets: int = BUCKETS,
        kind: LakeKind | None = ICEBERG,
        **shape: tuple[str, ...],
    ) -> None:
        """A lake-enabled table; `kind` None = what the cluster makes of itself. `shape`: `primary_key`, `partition_keys`."""
        with self.cluster() as cluster:
            cluster.create_database(path.database_name, ignore_if_exists=True)
            properties = {"table.datalake.enabled": "true", "table.datalake.freshness": freshness}
            properties |= {} if kind is None else kind.options
            cluster.create_table(path, TableSpec(schema, buckets, properties=properties, **shape))

    def create_keyed(self, path: TablePath, freshness: str = "1 h", schema: pa.Schema = KEYED, buckets: int = 2) -> None:
        """A lake-enabled table with the primary key `id`, as the cluster makes it by itself."""
        self.create(path, freshness, schema, buckets, None, primary_key=("id",))

    def drop(self, path: TablePath) -> None:
        """Drops the table, and waits until the coordinator does not list it any more."""
        with self.cluster() as cluster:
            cluster.drop_table(path)
        with LakewardClient(self.uri) as client:
            paths = lambda: {TablePath(status.database_name, status.table_name) for status in client.list_tiering_statuses()}  # noqa: E731
            wait_for(f"the coordinator forgets {path}", lambda: path not in paths())

    def append(self, path: TablePath, start: int, count: int, pieces: int = BUCKETS) -> None:
        """Rows in several appends, so that every bucket gets some."""
        with self.cluster() as cluster:
            writer = LogWriter(cluster, path, f"test-{path}-{start}")
            for piece in range(pieces):
                first, last = start + piece * count // pieces, start + (piece + 1) * count // pieces
                writer.append(rows(first, last - first))
        self.appended_at = datetime.now(UTC)

    def status(self, path: TablePath) -> TableStatus:
        with LakewardClient(self.uri) as client:
            [status] = client.list_tiering_statuses(table_path=path)
        return status

    def wait_tiered(self, path: TablePath, seconds: float = 180) -> TableStatus:
        """Until nothing that was appended is pending and the table is at rest. An older look at the log does not count."""

        def probe() -> TableStatus | None:
            status = self.status(path)
            is_fresh = status.offsets_observed_time is not None and status.offsets_observed_time > self.appended_at
            return status if is_fresh and status.pending_records == 0 and status.status == "Scheduled" else None

        return wait_for(f"{path} is tiered", probe, seconds)

    def by_hand(self, kind: LakeKind) -> LakeByHand:
        """The lake of these tables, as users see and change it."""
        return lake_by_hand(kind.format, self.lake_properties)

    def assert_exact(self, path: TablePath, count: int, lake_properties: Mapping[str, str] | None = None) -> None:
        """The lake has every offset of the log once, and exactly the rows `0 .. count-1`."""
        with self.cluster() as cluster:
            table = cluster.table(path)
            ends = {bucket.bucket_id: log.log_end for bucket, log in cluster.offsets(table).items()}
        offsets = assert_every_offset_once(lake_properties or self.lake_properties, path, ends, table.lake_format)
        assert sorted(offsets["id"].to_pylist()) == list(range(count))

    def close(self) -> None:
        """Ends everything at once, without waiting for the end of a round or of a Spark."""
        for process in reversed(self.processes):
            process.kill()
        for port in self.held_ports:
            port.close()


StartedDeployment = TypeVar("StartedDeployment", bound=Deployment)


@contextmanager
def started(deployment: StartedDeployment, *options: str, tierer: bool = False) -> Iterator[StartedDeployment]:
    """Starts a coordinator with `options`, and an inline tierer if `tierer`. Ends all processes of the deployment at the end."""
    try:
        deployment.start_coordinator(*options)
        if tierer:
            deployment.start_inline_tierer("tierer")
        yield deployment
    finally:
        deployment.close()


def is_stopped(process: Process) -> bool:
    """Whether the kernel holds it after a SIGSTOP."""
    return Path(f"/proc/{process.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def wait_stopped(process: Process) -> None:
    """Until it stopped itself at its crash point."""
    wait_for("the process stops itself", lambda: is_stopped(process))


def wake(process: Process) -> None:
    """SIGCONT."""
    process.send(signal.SIGCONT)
