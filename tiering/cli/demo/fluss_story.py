"""The demo on a real Apache Fluss cluster, which it starts on this machine.

Spark jobs tier a log table and a primary-key table into the lake that Fluss's configuration names. SQL shows the tables, rows are updated
and deleted, Fluss knows the lake snapshots, and DuckDB proves the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from tiering.cli.demo import data
from tiering.cli.demo.stage import FLIGHTS, PLANES, STATUS_SQL, Stage, open_stage
from tiering.cli.demo.story import correct_and_retire
from tiering.cli.fluss_server.configuration import ClusterSettings
from tiering.cli.fluss_server.jars import plugins_folder
from tiering.cli.fluss_server.local_cluster import local_cluster
from tiering.cli.spark.properties import CATALOG
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.writing.writer import fluss_writer
from tiering.model.tables import TablePath

CLUSTER_ID = "lakeward-demo"
FRESHNESS = "1 min"
"""Long enough that only CALLs begin rounds."""


def tell(stage: Stage) -> bool:
    """Shows the whole demo. Returns whether every proof held."""
    flights, planes = data.read_flights(), data.read_planes()
    months = data.by_month(flights)
    stage.say(f"In Fluss: a log table of flights, a primary-key table of planes; a copy in the lake at most {FRESHNESS} old")
    stage.create(FLIGHTS, flights.schema, freshness=FRESHNESS)
    stage.create(PLANES, planes.schema, primary_key=(data.PLANE_KEY,), freshness=FRESHNESS)
    for month in months[:6]:
        stage.writer(FLIGHTS).append(month)
    stage.writer(PLANES).upsert(planes)
    stage.sql(f"SHOW TABLES IN {CATALOG}.nyc")
    stage.tier(FLIGHTS)
    stage.tier(PLANES)
    stage.sql(STATUS_SQL)
    stage.say("The other months arrive")
    for month in months[6:]:
        stage.writer(FLIGHTS).append(month)
    stage.tier(FLIGHTS)
    left = correct_and_retire(stage, planes)
    stage.sql(STATUS_SQL)
    stage.show_places("all of them as jobs of the tierer's Spark")
    stage.show_health()
    stage.say("Fluss knows each lake snapshot, so that its own readers continue in the log where the lake ends")
    recorded = [_is_recorded(stage, path) for path in (FLIGHTS, PLANES)]
    return stage.prove({FLIGHTS: flights.num_rows, PLANES: left}) and all(recorded)


def _is_recorded(stage: Stage, path: TablePath) -> bool:
    """Shows the lake snapshot that Fluss has recorded for a table. Returns whether it is the snapshot that the coordinator knows."""
    recorded = stage.cluster.lake_snapshot(stage.cluster.table(path))
    [status] = stage.client.list_tiering_statuses(table_path=path)
    if recorded is None:
        stage.console.print(f"{path}: Fluss knows no lake snapshot", highlight=False)
        return False
    offsets = ", ".join(f"bucket {bucket.bucket_id}: {offset:,}" for bucket, offset in sorted(recorded.offsets.items()) if offset)
    stage.console.print(f"{path}: lake snapshot {recorded.lake_snapshot_id}; {offsets}", highlight=False)
    return recorded.lake_snapshot_id == status.lake_snapshot_id


@contextmanager
def open_fluss_stage(console: Console, folder: Path, port: int) -> Iterator[Stage]:
    """Starts a Fluss cluster with a lake and opens a stage on it. Stops everything afterwards."""
    lake = {"type": "hadoop", "warehouse": str(folder / "lake")}
    settings = ClusterSettings(plugins_folder=plugins_folder(), lake=lake)
    with local_cluster(folder / "fluss", settings) as cluster:
        console.print(f"Apache Fluss is ready: {cluster.bootstrap_servers}", highlight=False)
        options = (
            *("--fluss", cluster.bootstrap_servers, "--fluss-cluster-id", CLUSTER_ID, "--fluss-mode", "exclusive"),
            *("--fluss-conf", str(cluster.server_yaml)),
            *("--inline-round-bytes", "0"),  # otherwise rounds as small as these run without a Spark job
        )
        source = fluss_writer(FlussConnection.parse(cluster.bootstrap_servers))
        with open_stage(console, folder / "lakeward", port, options, source) as stage:
            yield stage
