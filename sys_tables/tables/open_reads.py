"""sys.open_reads: the reads of data tables that the service keeps open now, with the lake snapshot and the log records that they need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import INT, column


@dataclass(frozen=True)
class OpenReadRow:
    """One read between its opening and its end."""

    read_id: str = column("Identifier of the read.")
    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    table_id: int = column("Id of the table.")
    principal: str | None = column("The identity that reads; NULL if the service does not authenticate callers.")
    engine: str | None = column(
        "The program that reads: spark, python (Spark without the plugin), duckdb, or stream for a streaming query."
    )
    application_id: str | None = column("The reader's application, such as the id of a Spark application; NULL if it gave none.")
    lake_snapshot_id: int | None = column("The lake snapshot that is read; NULL for a table without a lake copy.")
    log_records: int = column("Upper bound of the records that are read from the log.")
    log_buckets: int = column("Number of buckets with records that are read from the log.", arrow_type=INT)
    kv_snapshots: int = column("Number of KV snapshots that are read, and leased for that.", arrow_type=INT)
    opened_at: datetime = column("When the read was opened. It has all rows of this time.")
    renewed_at: datetime = column("When the read was opened or last renewed.")
    expires_at: datetime = column("When the read ends unless it is renewed. Then what it needs is no longer kept.")
    state: str = column("OPEN; EXPIRING if the reader has missed several renewals.")


@system_table(
    "open_reads",
    OpenReadRow,
    requires=DESCRIBE_EACH_TABLE,
    comment="Reads of data tables that are open now, the oldest first.",
)
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[OpenReadRow]:
    for read in view.open_reads():
        moment = read.moment
        yield OpenReadRow(
            read_id=read.read_id,
            database_name=moment.path.database_name,
            table_name=moment.path.table_name,
            table_id=moment.table_id,
            principal=read.principal or None,
            engine=read.engine or None,
            application_id=read.application_id or None,
            lake_snapshot_id=moment.lake_snapshot_id,
            log_records=moment.log_records,
            log_buckets=len(moment.log_starts),
            kv_snapshots=len(moment.kv_snapshots),
            opened_at=read.opened_at,
            renewed_at=read.renewed_at,
            expires_at=read.expires_at,
            state=read.state(view.now),
        )
