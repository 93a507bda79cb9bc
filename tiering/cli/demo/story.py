"""The demo, step by step: tables fill while rounds run, SQL shows it, rows of a primary-key table change and go, one table
fails and is mended, DuckDB proves the rest."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.types import StringType
from rich.console import Console
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from tiering.cli.demo import data
from tiering.cli.demo.service import DemoService, start_service
from tiering.cli.service_cluster import writable_cluster
from tiering.cli.spark.properties import CATALOG
from tiering.cli.spark.reader import open_reader_spark
from tiering.client import LakewardClient
from tiering.cluster.embedded.rpc.writer import LogWriter
from tiering.cluster.writable import TableSpec, WritableCluster
from tiering.errors import RoundFailed
from tiering.lake.iceberg.catalogs.opening import open_catalog
from tiering.model.names import table_path
from tiering.model.tables import TablePath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATABASE = "nyc"
FLIGHTS = table_path(DATABASE, data.FLIGHTS)
WEATHER = table_path(DATABASE, data.WEATHER)
PLANES = table_path(DATABASE, data.PLANES)
FRESHNESS = "3 s"
BUCKETS = 4
HAND_MADE_COLUMN = "checked_by"
STATUS_SQL = (
    f"SELECT table_name, status, tiering_epoch AS epoch, last_tiered_time, lag_ms, pending_records AS pending, lake_records AS in_lake "
    f"FROM {CATALOG}.sys.lake_tiering_status"
)
ERROR_SQL = (
    f"SELECT table_name, status, error_class, last_error, error_hint, consecutive_failures AS failures "
    f"FROM {CATALOG}.sys.lake_tiering_status WHERE error_class IS NOT NULL"
)
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Stage:
    """What every step of the demo has at hand."""

    console: Console
    service: DemoService
    spark: SparkSession
    cluster: WritableCluster
    client: LakewardClient
    writers: dict[TablePath, LogWriter] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """A heading."""
        self.console.print(f"\n[bold cyan]-- {text}[/]")

    def sql(self, statement: str, vertical: bool = False) -> None:
        """Runs a statement in Spark and shows it with its result."""
        self.console.print(f"[green]{CATALOG}>[/] {statement}", highlight=False)
        self.spark.sql(statement).show(truncate=False, vertical=vertical)


def tell(stage: Stage) -> bool:
    """The whole story; whether every proof held."""
    flights, weather = data.read_flights(), data.read_weather()
    months = data.by_month(flights)
    stage.say(
        f"Two tables of {flights.num_rows:,} flights and {weather.num_rows:,} hours of weather; a copy in the lake at most {FRESHNESS} old"
    )
    _create(stage, FLIGHTS, flights.schema)
    _create(stage, WEATHER, weather.schema)
    _append(stage, FLIGHTS, months[0])
    half = weather.num_rows // 2
    _append(stage, WEATHER, weather.slice(0, half))
    stage.sql(f"SHOW NAMESPACES IN {CATALOG}")
    stage.sql(f"SHOW TABLES IN {CATALOG}.sys")
    _watch_it_tier(stage, months[1:-1])
    stage.say("December has just come in. Do not wait for the schedule: tier now")
    _append(stage, FLIGHTS, months[-1])
    stage.sql(f"CALL {CATALOG}.sys.tier_table('{FLIGHTS}')", vertical=True)
    planes = _change_planes(stage)
    _fail_and_mend(stage, weather.slice(half))
    return _prove(stage, {FLIGHTS: flights.num_rows, WEATHER: weather.num_rows, PLANES: planes})


def _create(stage: Stage, path: TablePath, schema: pa.Schema, primary_key: tuple[str, ...] = ()) -> None:
    stage.cluster.create_database(path.database_name, ignore_if_exists=True)
    properties = {"table.datalake.enabled": "true", "table.datalake.freshness": FRESHNESS}
    stage.cluster.create_table(path, TableSpec(schema, BUCKETS, properties=properties, primary_key=primary_key))


def _writer(stage: Stage, path: TablePath) -> LogWriter:
    return stage.writers.setdefault(path, LogWriter(stage.cluster, path, f"demo-{path}"))


def _append(stage: Stage, path: TablePath, rows: pa.Table) -> None:
    _writer(stage, path).append(rows)


def _change_planes(stage: Stage) -> int:
    """A primary-key table: rows are upserted, corrected and deleted; how many are left."""
    planes = data.read_planes()
    corrected, retired = data.corrected(planes), data.retired(planes)
    stage.say(f"A table with a primary key: {planes.num_rows:,} planes by tail number")
    _create(stage, PLANES, planes.schema, primary_key=(data.PLANE_KEY,))
    _writer(stage, PLANES).upsert(planes)
    stage.sql(f"CALL {CATALOG}.sys.tier_table('{PLANES}')", vertical=True)
    stage.say(f"{corrected.num_rows} planes get their manufacturer's new name, {retired.num_rows} old ones are retired")
    _writer(stage, PLANES).upsert(corrected)
    _writer(stage, PLANES).delete(retired)
    stage.sql(f"CALL {CATALOG}.sys.tier_table('{PLANES}')", vertical=True)
    return planes.num_rows - retired.num_rows


def _watch_it_tier(stage: Stage, months: list[pa.Table]) -> None:
    """Batches come in, a month at a time, while rounds run; the status is shown on the way."""
    stage.say("Ten more months come in while rounds run")

    def feed() -> None:
        for month in months:
            _append(stage, FLIGHTS, month)
            pause.wait(0.8)

    pause = threading.Event()
    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    while feeder.is_alive():
        stage.sql(STATUS_SQL)
        feeder.join(3)


def _fail_and_mend(stage: Stage, rows: pa.Table) -> None:
    stage.say(f"Somebody adds a column by hand to the lake table of {WEATHER}, and new weather comes in")
    _wait_for_status(stage, WEATHER, failing=False)
    _alter_lake(stage, add=True)
    _append(stage, WEATHER, rows)
    _wait_for_status(stage, WEATHER, failing=True)
    stage.sql(ERROR_SQL, vertical=True)
    stage.say("The mend: drop that column again, and call the table back")
    _alter_lake(stage, add=False)
    stage.sql(f"CALL {CATALOG}.sys.tier_table(table => '{WEATHER}')", vertical=True)
    stage.sql(f"SELECT table_name, status, last_error, consecutive_failures FROM {CATALOG}.sys.lake_tiering_status")


def _alter_lake(stage: Stage, add: bool) -> None:
    catalog = open_catalog(stage.service.lake_properties)
    with catalog.load_table((WEATHER.database_name, WEATHER.table_name)).update_schema() as change:
        if add:
            change.add_column(HAND_MADE_COLUMN, StringType())
        else:
            change.delete_column(HAND_MADE_COLUMN)


def _wait_for_status(stage: Stage, path: TablePath, failing: bool) -> None:
    """Until the table fails, or until everything of it is in the lake."""

    def reached() -> bool:
        [status] = stage.client.list_tiering_statuses(table_path=path)
        return status.error_class is not None if failing else status.pending_records == 0 and status.lake_snapshot_id is not None

    waiting = Retrying(
        retry=retry_if_result(lambda done: not done),
        stop=stop_after_delay(PATIENCE_SECONDS),
        wait=wait_fixed(0.2),
        retry_error_callback=lambda _: False,
    )
    if not waiting(reached):
        raise RoundFailed(f"{path} did not {'fail' if failing else 'settle'} within {PATIENCE_SECONDS} s: see `lakeward status`")


def _prove(stage: Stage, expected: Mapping[TablePath, int]) -> bool:
    """Whether lake and log are equal, row by row, and have as many rows as the files that were read."""
    stage.say("DuckDB reads the lake's files and the log: every row once, with the same values on both sides")
    stage.client.tier_table(FLIGHTS)
    held = True
    for path, rows in expected.items():
        held &= _prove_one(stage, path, rows)
    return held


def _prove_one(stage: Stage, path: TablePath, expected: int) -> bool:
    statement = f"CALL {CATALOG}.sys.validate_table('{path}', level => 'rows')"
    stage.console.print(f"[green]{CATALOG}>[/] {statement}", highlight=False)
    frame = stage.spark.sql(statement)
    frame.select("check", "scope", "expected", "actual", "ok", "details").show(truncate=False)
    checks = frame.collect()
    rows = sum(int(check.actual) for check in checks if check.check == "rows" and check.ok)
    held = all(check.ok for check in checks) and rows == expected
    verdict = "[bold green]equal[/]" if held else "[bold red]DIFFERENT[/]"
    stage.console.print(f"{path}: {expected:,} rows read from its file and not deleted, {rows:,} in the lake: {verdict}", highlight=False)
    return held


@contextmanager
def open_stage(console: Console, folder: Path, port: int) -> Iterator[Stage]:
    """Service, Spark and clients; all of it ended afterwards."""
    service = start_service(folder, port)
    try:
        spark = open_reader_spark(service.uri, "lakeward demo", master="local[1]")
        try:
            with writable_cluster(service.uri) as cluster, LakewardClient(service.uri) as client:
                yield Stage(console, service, spark, cluster, client)
        finally:
            spark.stop()
    finally:
        service.stop()
