"""The stage of the demos: a service, a Spark session and a cluster, with the steps that all demos have in common."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from tiering.child_process import module_command
from tiering.cli.demo import data
from tiering.cli.processes.data_folder import DataFolder
from tiering.cli.processes.detached import waited_for
from tiering.cli.service_cluster import writable_cluster
from tiering.cli.spark.properties import CATALOG
from tiering.cli.spark.reader import open_reader_spark
from tiering.cli.sql.service_engine import ServiceDuckDbEngine
from tiering.client import LakewardClient
from tiering.cluster.log_writer import LogWriter
from tiering.cluster.writable import TableSpec, WritableCluster
from tiering.errors import RoundFailed, SetupError
from tiering.model.names import table_path
from tiering.model.tables import TablePath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATABASE = "nyc"
FLIGHTS = table_path(DATABASE, data.FLIGHTS)
PLANES = table_path(DATABASE, data.PLANES)
FRESHNESS = "3 s"
BUCKETS = 4
STATUS_SQL = (
    f"SELECT table_name, status, tiering_epoch AS epoch, last_tiered_time, lag_ms, pending_records AS pending, lake_records AS in_lake "
    f"FROM {CATALOG}.sys.lake_tiering_status"
)
ROUNDS_SQL = (
    f"SELECT table_name, state, ran_on, spark_application_id, spark_job_id AS job, splits_total AS splits, records_written, duration_ms "
    f"FROM {CATALOG}.sys.tiering_rounds WHERE ran_on IS NOT NULL ORDER BY pending_time DESC LIMIT 20"
)
HEALTH_SQL = (
    f"SELECT table_name, score, reason, data_files, small_files, snapshots, metadata_bytes, next_action "
    f"FROM {CATALOG}.sys.lake_table_health ORDER BY table_name"
)
UPKEEP_SQL = (
    f"SELECT table_name, trigger, actions, outcome, files_before, files_after, bytes_written, snapshots_expired "
    f"FROM {CATALOG}.sys.lake_upkeep ORDER BY pending_time DESC LIMIT 10"
)
STOP_SECONDS = 20
_READY = re.compile(r"lakeward is ready: (\S+)")
_CONSOLE = re.compile(r"lakeward console: (\S+)")
PATIENCE_SECONDS = 180
HEALTH_SECONDS = 30
"""Longest wait for the health of the tables, which is observed some seconds after a snapshot. The demo continues without it."""


@dataclass(frozen=True)
class DemoService:
    """A running `lakeward up`."""

    process: subprocess.Popen[str]
    uri: str
    folder: Path
    console_url: str = ""

    @property
    def lake_properties(self) -> dict[str, str]:
        return DataFolder(self.folder).lake_properties

    def stop(self) -> None:
        """Ends the process with SIGTERM, and with SIGKILL if it does not end in time."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()


def start_service(folder: Path, port: int, options: Sequence[str] = ()) -> DemoService:
    """Starts the service with more `options` of the command, and waits until it is ready. Raises SetupError with its log if it ends."""
    folder = folder.expanduser().resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = folder.with_name(f"{folder.name}.log")
    command = module_command("tiering.cli.main", "up", "--data", str(folder), "--port", str(port), *options)
    console_url = ""
    with open(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "w") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if match := _CONSOLE.search(line):
                console_url = match[1]
            if match := _READY.search(line):
                return DemoService(process, match[1], folder, console_url)
    except BaseException:  # Ctrl-C
        DemoService(process, "", folder).stop()
        raise
    raise SetupError(f"the service did not start: {log.read_text()[-2_000:]}", hint=f"The complete log is {log}.")


@dataclass(frozen=True)
class Stage:
    """The service, sessions and clients that every step of a demo uses."""

    console: Console
    service: DemoService
    spark: SparkSession
    cluster: WritableCluster
    client: LakewardClient
    writers: dict[TablePath, LogWriter] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Prints a heading."""
        self.console.print(f"\n[bold cyan]-- {text}[/]")

    def sql(self, statement: str, vertical: bool = False) -> None:
        """Prints a statement, runs it in Spark, and prints its result."""
        self.console.print(f"[green]{CATALOG}>[/] {statement}", highlight=False)
        self.spark.sql(statement).show(n=100, truncate=False, vertical=vertical)

    def fresh(self, statement: str) -> None:
        """Prints a statement, runs it in DuckDB with the service, and prints its result. It reads rows up to now."""
        self.console.print(f"[green]lakeward sql --engine duckdb>[/] {statement}", highlight=False)
        with closing(ServiceDuckDbEngine(self.service.uri)) as engine:
            result = engine.execute(statement)
        table = Table(*result.columns)
        for row in result.rows:
            table.add_row(*map(str, row))
        self.console.print(table)

    def tier(self, path: TablePath) -> None:
        """Tiers a table now with a CALL, and prints the result."""
        self.sql(f"CALL {CATALOG}.sys.tier_table('{path}')", vertical=True)

    def create(self, path: TablePath, schema: pa.Schema, primary_key: tuple[str, ...] = (), freshness: str = FRESHNESS) -> None:
        """Creates a table with this freshness, and its database."""
        self.cluster.create_database(path.database_name, ignore_if_exists=True)
        properties = {"table.datalake.enabled": "true", "table.datalake.freshness": freshness}
        self.cluster.create_table(path, TableSpec(schema, BUCKETS, properties=properties, primary_key=primary_key))

    def writer(self, path: TablePath) -> LogWriter:
        """Returns the only writer of the table."""
        return self.writers.setdefault(path, LogWriter(self.cluster, path, f"demo-{path}"))

    def wait_for_status(self, path: TablePath, failing: bool) -> None:
        """Waits until the table fails, or until the lake has all its rows. Raises RoundFailed after PATIENCE_SECONDS."""

        def reached() -> bool:
            [status] = self.client.list_tiering_statuses(table_path=path)
            return status.error_class is not None if failing else status.pending_records == 0 and status.lake_snapshot_id is not None

        if not waited_for(reached, PATIENCE_SECONDS):
            raise RoundFailed(
                f"{path} did not {'fail' if failing else 'reach the lake'} within {PATIENCE_SECONDS} s: see `lakeward status`"
            )

    def show_places(self, which: str) -> None:
        """Prints where the rounds ran, with Spark's ids of application and job."""
        self.say(f"Where the rounds ran: {which}")
        self.sql(ROUNDS_SQL)

    def show_health(self) -> None:
        """Prints the health of the lake tables after all rounds, and what upkeep did."""
        self.say("The health of the lake tables after these rounds, and what upkeep did")
        unobserved = f"SELECT 1 FROM {CATALOG}.sys.lake_table_health WHERE score IS NULL"
        waited_for(lambda: not self.spark.sql(unobserved).collect(), HEALTH_SECONDS)
        self.sql(HEALTH_SQL)
        self.sql(UPKEEP_SQL)

    def prove(self, expected: Mapping[TablePath, int]) -> bool:
        """Returns whether lake and log are equal, row by row, and have the expected number of rows."""
        self.say("DuckDB reads the lake's files and the log: every row once, with the same values on both sides")
        equal = [self._prove_table(path, rows) for path, rows in expected.items()]
        return all(equal)

    def _prove_table(self, path: TablePath, expected: int) -> bool:
        statement = f"CALL {CATALOG}.sys.validate_table('{path}', level => 'rows')"
        self.console.print(f"[green]{CATALOG}>[/] {statement}", highlight=False)
        frame = self.spark.sql(statement)
        frame.select("check", "scope", "expected", "actual", "ok", "details").show(truncate=False)
        checks = frame.collect()
        rows = sum(int(check.actual) for check in checks if check.check == "rows" and check.ok)
        is_equal = all(check.ok for check in checks) and rows == expected
        verdict = "[bold green]equal[/]" if is_equal else "[bold red]DIFFERENT[/]"
        self.console.print(
            f"{path}: {expected:,} rows read from its file and not deleted, {rows:,} in the lake: {verdict}", highlight=False
        )
        return is_equal


@contextmanager
def open_stage(
    console: Console,
    folder: Path,
    port: int,
    options: Sequence[str] = (),
    source: AbstractContextManager[WritableCluster] | None = None,
    keep: bool = False,
) -> Iterator[Stage]:
    """Starts the service, Spark and the clients, and stops everything afterwards.

    `options` are more options of `lakeward up`. `source` is the cluster to write to; by default the cluster of the service. `keep`: the
    service stays after a block without an exception.
    """
    service, is_kept = start_service(folder, port, options), False
    console.print(f"The console is at {service.console_url}: sign in with [bold]lakeward console --uri {service.uri}[/]", highlight=False)
    try:
        spark = open_reader_spark(service.uri, "lakeward demo", master="local[1]")
        try:
            with source or writable_cluster(service.uri) as cluster, LakewardClient(service.uri) as client:
                yield Stage(console, service, spark, cluster, client)
        finally:
            spark.stop()
        is_kept = keep
    finally:
        if not is_kept:
            service.stop()
