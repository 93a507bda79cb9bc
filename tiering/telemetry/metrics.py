"""All metrics: name, meaning, labels, and the name in Apache Fluss if Fluss has the metric, too.

A metric of Fluss keeps the name that Fluss's Prometheus reporter gives it, and its unit: `fluss_coordinator_` becomes `lakeward_`.
Metrics of Lakeward have Prometheus' base units. No label has an unbounded number of values: tables and tierers have series up to a limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version

from tiering.lake.health.score import ILL_SCORE


class Kind(StrEnum):
    """Prometheus' type of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Process(StrEnum):
    """The process that serves a metric."""

    COORDINATOR = "coordinator"
    TIERER = "tierer"


TABLE = ("database", "table")

VERSION = version("lakeward")
"""Version of the installed package."""

DEFAULT_TABLES = 500
"""Number of tables with series of their own. Each has eighteen series; a scrape then has some 500 KB."""


@dataclass(frozen=True)
class Metric:
    """A metric. The name of a counter ends with `_total`."""

    name: str
    comment: str
    labels: tuple[str, ...] = ()
    kind: Kind = Kind.GAUGE
    process: Process = Process.COORDINATOR
    fluss: str | None = None
    """Name in Fluss: scope, then metric."""


def _of_fluss(scope: str, name: str, comment: str, labels: tuple[str, ...] = ()) -> Metric:
    infix = f"{scope}_" if scope else ""
    return Metric(f"lakeward_{infix}{name}", comment, labels, fluss=f"fluss_coordinator_{infix}{name}")


def _of_tierer(name: str, comment: str, labels: tuple[str, ...] = (), kind: Kind = Kind.GAUGE) -> Metric:
    return Metric(f"lakeward_tierer_{name}", comment, labels, kind, Process.TIERER)


_TABLES = "lakeTiering_table"

PENDING_TABLES = _of_fluss("lakeTiering", "pendingTablesCount", "Tables that wait for a tierer.")
RUNNING_TABLES = _of_fluss("lakeTiering", "runningTablesCount", "Tables that are assigned to a tierer.")
TIER_LAG = _of_fluss(
    _TABLES, "tierLag", "Milliseconds since the lake copy was last up to date; before the first time, since the table was added.", TABLE
)
TIERED_TIMESTAMP = _of_fluss(_TABLES, "tieredTimestamp", "When the lake copy was last up to date, in milliseconds since the epoch.", TABLE)
TIER_DURATION = _of_fluss(_TABLES, "tierDuration", "Duration of the latest ended round, in milliseconds.", TABLE)
FAILURES = _of_fluss(_TABLES, "failuresTotal", "Failed rounds since the table was added or its errors were reset.", TABLE)
FILE_SIZE = _of_fluss(_TABLES, "fileSize", "Bytes of the lake table's data files.", TABLE)
RECORD_COUNT = _of_fluss(_TABLES, "recordCount", "Records of the lake table.", TABLE)
PENDING_TIME = _of_fluss(_TABLES, "pendingTime", "Milliseconds that the table has waited for a tierer; 0 while it does not wait.", TABLE)
FRESHNESS = _of_fluss(_TABLES, "freshness", "The table's freshness: the greatest age of its lake copy, in milliseconds.", TABLE)
LEASES = _of_fluss("", "kvSnapshotLeaseCount", "Leases on KV snapshots.")
LEASED_SNAPSHOTS = _of_fluss("", "leasedKvSnapshotCount", "KV snapshots that leases keep alive.")

LAG = Metric("lakeward_table_lag_seconds", "Age of the oldest row that is not in the lake; 0 if there is none.", TABLE)
BEHIND = Metric("lakeward_table_behind_seconds", "Seconds by which the lag is above the freshness; 0 while it is not.", TABLE)
PENDING_RECORDS = Metric("lakeward_table_pending_records", "Records of the log that are not in the lake.", TABLE)
LAKE_FILES = Metric("lakeward_table_lake_files", "Data files of the lake table.", TABLE)
HEALTH_SCORE = Metric("lakeward_table_health_score", "Health of the lake table from 0 to 100; absent before the first check.", TABLE)
SMALL_FILES = Metric("lakeward_table_small_files", "Small data files of the lake table.", TABLE)
DEAD_ROW_SHARE = Metric("lakeward_table_dead_row_share", "Share of the lake table's rows that are deleted; absent if unknown.", TABLE)
METADATA_BYTES = Metric("lakeward_table_metadata_bytes", "Bytes of the lake table's metadata files.", TABLE)
FAILURES_IN_A_ROW = Metric("lakeward_table_consecutive_failures", "Failed rounds since the last success.", TABLE)
DEAD_LETTERS = Metric("lakeward_table_dead_letters", "Records that were put aside, because the lake cannot hold them, and wait.", TABLE)
SUPERSEDED_DEAD_LETTERS = Metric(
    "lakeward_table_superseded_dead_letters",
    "Records that were put aside, and whose key changed later, so that they stay out.",
    TABLE,
)
PAUSED = Metric("lakeward_table_paused", "1 while the table is paused, else 0.", TABLE)

TABLES = Metric("lakeward_tables", "Lake tables by state.", ("status",))
TABLES_BEHIND = Metric("lakeward_tables_behind", "Tables behind their freshness, without paused tables.")
TABLES_FAILING = Metric(
    "lakeward_tables_failing", "Tables whose latest round failed, by whether tiering retries them by itself.", ("retries",)
)
TABLES_PAUSED = Metric("lakeward_tables_paused", "Paused tables.")
TABLES_IN_BACKLOG = Metric("lakeward_tables_in_backlog", "Tables that still tier the rows from before tiering began.")
TABLES_UNHEALTHY = Metric("lakeward_tables_unhealthy", f"Lake tables with a health score below {ILL_SCORE}.")
TABLES_UPKEEP_FAILING = Metric(
    "lakeward_tables_upkeep_failing", "Lake tables whose latest upkeep round failed, or was overtaken by another commit."
)
TABLES_UPKEEP_PAUSED = Metric("lakeward_tables_upkeep_paused", "Lake tables whose upkeep is paused.")
TABLES_NOT_PUBLISHED = Metric("lakeward_tables_not_published", "Lake tables that could not be published in the second catalog.")
REWRITE_BYTES = Metric("lakeward_rewrite_bytes", "Bytes of data files of all lake tables that upkeep would rewrite now.")
OPEN_READS = Metric("lakeward_open_reads", "Reads of data tables that are open now.")
OLDEST_READ = Metric("lakeward_open_reads_oldest_seconds", "Age of the oldest open read. Its lake snapshot and log records are kept.")
MAX_LAG = Metric("lakeward_lag_seconds_max", "The largest lag of all tables.")
ALL_PENDING_RECORDS = Metric("lakeward_pending_records", "Records of all tables that are not in the lake.")
ALL_FAILURES = Metric("lakeward_failures", "Failed rounds of all present tables.")
TABLES_LEFT_OUT = Metric("lakeward_tables_left_out", "Tables without series of their own, because there are more than the limit.")
LEFT_OUT_MAX_LAG = Metric("lakeward_left_out_lag_seconds_max", "The largest lag of the tables without series of their own.")
LEFT_OUT_PENDING_RECORDS = Metric(
    "lakeward_left_out_pending_records", "Records that are not in the lake, of the tables without series of their own."
)
LEFT_OUT_BEHIND = Metric(
    "lakeward_left_out_tables_behind", "Tables without series of their own that are behind their freshness, without paused tables."
)

TIERERS = Metric("lakeward_tierers", "Tierers with a heartbeat within the service timeout, by state.", ("state",))
SLOTS = Metric("lakeward_tierers_slots", "Tables that active tierers can tier at a time.")
SLOTS_USED = Metric("lakeward_tierers_tables_running", "Tables that active tierers tier now.")
SILENCE = Metric("lakeward_tierers_silent_seconds", "Seconds since a tierer's last heartbeat.", ("tierer",))
TIERERS_LEFT_OUT = Metric("lakeward_tierers_left_out", "Tierers without a series of their own, because there are more than the limit.")
LEASE_STATES = Metric("lakeward_kv_snapshot_leases", "Leases by state: EXPIRING have less than a tenth of their time left.", ("state",))
LEASE_REMAINING = Metric(
    "lakeward_kv_snapshot_lease_remaining_seconds_min", "Seconds until the first lease expires; absent without leases."
)
COORDINATOR_EPOCH = Metric("lakeward_coordinator_epoch", "Number that grows each time a coordinator takes over the store.")
LINEAGE_EVENTS = Metric(
    "lakeward_openlineage_events_total",
    "Events of rounds by outcome: sent to the OpenLineage endpoint, or lost.",
    ("outcome",),
    Kind.COUNTER,
)
LINEAGE_WAITING = Metric("lakeward_openlineage_events_waiting", "Events of rounds that wait for the OpenLineage endpoint.")
SCRAPE_SECONDS = Metric("lakeward_scrape_seconds", "Duration of this scrape.")
BUILD = Metric("lakeward_build_info", "1; the version is a label.", ("version",))

ROUNDS = _of_tierer("rounds_total", "Ended rounds by state, without upkeep rounds.", ("state",), Kind.COUNTER)
ROUND_SECONDS = _of_tierer("round_seconds", "Duration of rounds, without upkeep rounds.", (), Kind.HISTOGRAM)
PHASE_SECONDS = _of_tierer(
    "phase_seconds", "Duration of the parts of rounds: plan, lease, read, write, commit, ack.", ("phase",), Kind.HISTOGRAM
)
RECORDS_READ = _of_tierer("records_read_total", "Log records that were read.", (), Kind.COUNTER)
BYTES_READ = _of_tierer("bytes_read_total", "Bytes of the rows that were read, in memory.", (), Kind.COUNTER)
RECORDS_WRITTEN = _of_tierer("records_written_total", "Records written to the lake.", (), Kind.COUNTER)
BYTES_WRITTEN = _of_tierer("bytes_written_total", "Bytes of data files written.", (), Kind.COUNTER)
FILES_WRITTEN = _of_tierer("files_written_total", "Data files written.", (), Kind.COUNTER)
UPKEEP_ROUNDS = _of_tierer("upkeep_rounds_total", "Ended upkeep rounds by state.", ("state",), Kind.COUNTER)
UPKEEP_SECONDS = _of_tierer("upkeep_seconds", "Duration of upkeep rounds.", (), Kind.HISTOGRAM)
UPKEEP_BYTES_READ = _of_tierer("upkeep_bytes_read_total", "Bytes of files that upkeep rewrote, in all rounds.", (), Kind.COUNTER)
UPKEEP_BYTES_WRITTEN = _of_tierer("upkeep_bytes_written_total", "Bytes of the files that upkeep wrote instead.", (), Kind.COUNTER)
SNAPSHOTS_EXPIRED = _of_tierer("snapshots_expired_total", "Snapshots that rounds removed.", (), Kind.COUNTER)
TIERER_SLOTS = _of_tierer("slots", "Tables that the tierer can tier at a time.")
ROUNDS_RUNNING = _of_tierer("rounds_running", "Rounds that run now.")
COORDINATOR_SILENCE = _of_tierer("coordinator_silent_seconds", "Seconds since the coordinator last answered; NaN before its first answer.")
FAILED_HEARTBEATS = _of_tierer("failed_heartbeats_total", "Heartbeats without an answer.", (), Kind.COUNTER)
TIERER_BUILD = _of_tierer("build_info", "1; the version is a label.", ("version",))

METRICS = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
"""All metrics, in the order of their declarations."""
