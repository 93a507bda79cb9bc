"""The page of one lake table: its state in words, and a panel for each system table that has rows about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sys_tables.console.charts.activity import NEWEST_ROUNDS
from sys_tables.console.charts.schemas import ColumnPair, column_pairs
from sys_tables.console.charts.table_charts import BucketCell, bucket_cells, lag_chart
from sys_tables.console.charts.time_chart import TimeChart
from sys_tables.console.overview import STATUS_TABLE, UNKNOWN_PROMISE
from sys_tables.console.query import Query, equal, newest_first
from sys_tables.console.reader import FilledPanel, Heading, Panel, Reader, Row
from sys_tables.declare.scan import Order
from tiering.errors import UnknownTable
from tiering.model.reading.conditions import Condition, Filter, Operator
from tiering.model.refused_records import DeadLetterStatus
from tiering.model.rounds import PART_COLUMNS
from tiering.model.status import TableStatus
from tiering.round_history import WAIT_COLUMNS
from tiering.round_timeline import Timeline, timeline

HISTORY_ROWS = 20
ROUND_CHOICES = (5, 20, 50)
"""Numbers of rounds that a reader can choose for the time line. Fewer rounds cover less time, so their parts are wider."""
SHOWN_ROUNDS = 20
LAG_ROUNDS = 100
"""Rounds whose waits the chart of the lag shows."""
MAX_BUCKETS = 200
NO_ROWS = "No round has brought rows to the lake yet. The chart begins with the first rows: lakeward ingest loads some."
NO_ROUND = "No round has been queued yet. The first one begins when the table has rows. CALL fluss.sys.tier_table starts one now."


@dataclass(frozen=True)
class TablePage:
    """The content of the page. `status` is the row of `lake_tiering_status`."""

    status: Row
    headings: Sequence[Heading]
    query: Query
    promise: str
    panels: Sequence[FilledPanel]
    lag: FilledPanel
    """Rounds for the chart of the lag."""
    lag_chart: TimeChart | None
    shown_rounds: int
    """Most rounds of the time line."""
    round_choices = ROUND_CHOICES

    @property
    def rounds(self) -> Timeline | None:
        """Returns the picture above the panel of rounds."""
        return timeline(self._rows("tiering_rounds"), self.status["observed_time"])

    @property
    def buckets(self) -> Sequence[BucketCell]:
        """Returns the grid above the panel of buckets."""
        return bucket_cells(self._rows("tiering_buckets"))

    @property
    def columns(self) -> Sequence[ColumnPair]:
        """Returns the columns in source and lake; none before both are known."""
        source, lake = self._rows("tables"), self._rows("lake_table_health")
        return column_pairs(source[0]["schema"], lake[0]["lake_schema"]) if source and lake and lake[0]["lake_schema"] else ()

    @property
    def own_privileges(self) -> Sequence[str] | None:
        """Returns what the user may do on the table; None if the cluster does not list it."""
        own = [row["privileges"].split(", ") for row in self._rows("effective_privileges") if row["is_caller"]]
        return own[0] if own else None

    def _rows(self, table: str) -> Sequence[Row]:
        return next(filled.rows for filled in self.panels if filled.panel.query.table == table)


def shown_rounds(parameters: Mapping[str, str]) -> int:
    """Returns how many rounds the parameters of an address choose; the default for a text that is none of the choices."""
    return next((choice for choice in ROUND_CHOICES if parameters.get("rounds") == str(choice)), SHOWN_ROUNDS)


def table_page(reader: Reader, database_name: str, table_name: str, rounds: int = SHOWN_ROUNDS) -> TablePage:
    """Reads the page, with at most so many rounds.

    Raises UnknownTable, also for a table that the caller may not describe, and the errors of the service.
    """
    here = (equal("database_name", database_name), equal("table_name", table_name))
    query = Query(STATUS_TABLE, tuple(reader.all_columns(STATUS_TABLE)), here)
    rows = reader.rows(query)
    if not rows:
        raise UnknownTable(
            f"there is no lake table {database_name}.{table_name}", hint="The overview lists the lake tables that you may describe."
        )
    status = rows[0]
    filled = [reader.filled(panel) for panel in panels(here, rounds)]
    lag = reader.filled(lag_panel((*here, equal("table_id", status["table_id"]))))
    chart = lag_chart(lag.rows, TableStatus(**status))
    return TablePage(status, reader.headings(query), query, status["promise"] or UNKNOWN_PROMISE, filled, lag, chart, rounds)


def lag_panel(here: tuple[Condition, ...]) -> Panel:
    """Returns the panel of the newest rounds for the chart of the lag."""
    query = Query("tiering_rounds", WAIT_COLUMNS, here, NEWEST_ROUNDS, LAG_ROUNDS)
    return Panel("Lag", query, NO_ROWS, "lag")


def panels(here: tuple[Condition, ...], rounds: int = SHOWN_ROUNDS) -> list[Panel]:
    """Returns the panels for the rows that the conditions select, with at most so many rounds."""
    return [
        Panel(
            "Errors", Query("tiering_errors", ERRORS, here, newest_first("last_seen"), HISTORY_ROWS), "No round of this table has failed."
        ),
        Panel("Rounds", Query("tiering_rounds", ROUNDS, here, NEWEST_ROUNDS, rounds), NO_ROUND),
        Panel(
            "Buckets",
            Query("tiering_buckets", BUCKETS, here, (Order("partition_name"), Order("bucket_id")), MAX_BUCKETS),
            "The offsets of the log have not been read yet.",
        ),
        _letters_panel(here),
        Panel(
            "Commits", Query("lake_commits", COMMITS, here, newest_first("prepared_at"), HISTORY_ROWS), "No commit has been granted yet."
        ),
        Panel(
            "Leases on KV snapshots",
            Query("kv_snapshot_lease_buckets", LEASES, here, (Order("lease_id"), Order("bucket_id")), MAX_BUCKETS),
            "No lease keeps a KV snapshot of this table.",
        ),
        Panel("Health of the lake table", Query("lake_table_health", HEALTH, here), "The lake table has not been checked yet."),
        Panel("Upkeep", Query("lake_upkeep", UPKEEP, here, newest_first("pending_time"), HISTORY_ROWS), "No upkeep has been done."),
        Panel(
            "Validation",
            Query("validation_results", VALIDATION, here, newest_first("validated_at"), HISTORY_ROWS),
            "The table has not been validated. CALL fluss.sys.validate_table compares the lake with the log.",
        ),
        Panel(
            "Last proofs",
            Query("table_proofs", PROOFS, here, newest_first("proved_at"), HISTORY_ROWS),
            "The table has not been proved. CALL fluss.sys.prove_table writes a signed proof that the lake equals the log.",
        ),
        Panel(
            "Effective privileges",
            Query("effective_privileges", ("principal", "groups", "privileges", "is_caller"), here, limit=MAX_BUCKETS),
            "The cluster does not list this table.",
        ),
        Panel("Source table", Query("tables", SOURCE, here), "The cluster does not list this table."),
    ]


def _letters_panel(here: tuple[Condition, ...]) -> Panel:
    """Returns the panel of the records that the lake cannot hold: first those that wait, then those whose key changed later."""
    undecided = (*here, Filter("status", Operator.IN, (DeadLetterStatus.WAITING, DeadLetterStatus.SUPERSEDED)))
    query = Query("dead_letters", LETTERS, undecided, LETTER_ORDER, HISTORY_ROWS)
    return Panel("Waiting and superseded dead letters", query, "No record waits because the lake cannot hold it.")


ERRORS = ("phase", "error_class", "message", "hint", "retryable", "count", "first_seen", "last_seen", "resolved_at")
ROUNDS = (
    *("round_id", "state", "trigger", "triggered_by", "pending_time", "started_time", "finished_time", "duration_ms"),
    *("queued_late_ms", "waited_for_slot_ms", "earlier_rounds_ms", "backoff_ms", "paused_ms"),
    *(*PART_COLUMNS, "records_written", "error_class", "error_message"),
)
BUCKETS = (
    *("partition_name", "bucket_id", "log_end_offset", "lake_offset", "lag_records", "lag_ms"),
    *("log_only_records", "both_records", "lake_only_records", "stopped_at_offset", "error_message"),
)
LETTERS = (
    *("partition_name", "bucket_id", "offset", "status", "change_type", "record_time", "set_aside_time", "column_name", "reason"),
    *("superseded_time", "superseding_offset", "superseding_change_type", "record"),
)
LETTER_ORDER = (Order("status", descending=True), Order("partition_name"), Order("bucket_id"), Order("offset"))
COMMITS = ("round_id", "state", "prepared_at", "lake_snapshot_id", "acked_at", "records", "files", "offsets")
LEASES = ("lease_id", "partition_name", "bucket_id", "snapshot_id", "log_offset", "available")
HEALTH = ("score", "reason", "data_files", "small_files", "delete_files", "snapshots", "lake_schema", "observed_time")
UPKEEP = (
    "round_id",
    "trigger",
    "actions",
    "outcome",
    "reason",
    "files_before",
    "files_after",
    "bytes_read",
    "bytes_written",
    "duration_ms",
)
VALIDATION = ("validated_at", "level", "check", "scope", "expected", "actual", "ok", "details")
PROOFS = (
    "proved_at",
    "principal",
    "verdict",
    "details",
    "lake_snapshot_id",
    "rows",
    "readers",
    "archive_sha256",
    "fingerprint",
    "duration_ms",
)
SOURCE = (
    "table_type",
    "bucket_count",
    "bucket_keys",
    "primary_key",
    "partition_keys",
    "partitions",
    "lake_location",
    "schema",
    "created_at",
)
