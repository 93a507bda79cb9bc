"""sys.tables: the source tables, whether or not they are tiered.

Partition counts and the lake table's location of a tiered table are the coordinator's latest observations: a read calls no other service.
They are NULL before the first observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sys_tables.declare.scan import ScanRequest
from sys_tables.declare.system_table import system_table
from tiering.access.requirements import DESCRIBE_EACH_TABLE
from tiering.coordinator.interface import CoordinatorView
from tiering.model.declare import INT, column
from tiering.model.sql_types import column_list
from tiering.model.tables import TableInfo


@dataclass(frozen=True)
class TableRow:
    """One source table."""

    database_name: str = column("Database of the table.")
    table_name: str = column("Name of the table.")
    table_id: int = column("Id of the table, never reused.")
    table_type: str = column("LOG or PRIMARY_KEY.")
    bucket_count: int = column("Number of buckets, in each new partition.", arrow_type=INT)
    bucket_keys: tuple[str, ...] = column("Columns that choose the bucket; empty = round robin.")
    primary_key: tuple[str, ...] = column("Columns of the primary key; empty in a log table.")
    partition_keys: tuple[str, ...] = column("Partition columns; empty = not partitioned.")
    partitions: int | None = column(
        "Number of partitions; 0 in a table without partitions, NULL in a partitioned table without lake.", arrow_type=INT
    )
    lake_enabled: bool = column("Whether the table is tiered into the lake.")
    lake_format: str | None = column("Format of the lake table; NULL while lake is disabled.")
    lake_location: str | None = column("Where the lake table is stored; NULL before the first round of the table.")
    freshness_ms: int | None = column("How old the lake copy may be, in milliseconds; NULL while lake is disabled.")
    schema: str = column("Columns of the table, as in a CREATE TABLE.")
    created_at: datetime = column("When the table was created.")


@system_table("tables", TableRow, requires=DESCRIBE_EACH_TABLE, comment="The source tables and their options.")
def rows(view: CoordinatorView, scan: ScanRequest) -> Iterator[TableRow]:
    database_name, table_name = scan.equals("database_name"), scan.equals("table_name")
    counts_wanted = not scan.used_columns or "partitions" in scan.used_columns
    for database in view.databases():
        if database_name in (None, database):
            tables = [table for table in view.tables(database) if table_name in (None, table.path.table_name)]
            counts = view.partition_counts(tables) if counts_wanted else {}
            yield from (table_row(table, counts.get(table.table_id), view.lake_location(table.table_id)) for table in tables)


def table_row(table: TableInfo, partitions: int | None, lake_location: str | None) -> TableRow:
    """Returns the row of a table. `partitions` and `lake_location` are observations; None = not observed."""
    return TableRow(
        database_name=table.path.database_name,
        table_name=table.path.table_name,
        table_id=table.table_id,
        table_type=table.table_type.value,
        bucket_count=table.bucket_count,
        bucket_keys=table.bucket_keys,
        primary_key=table.primary_key,
        partition_keys=table.partition_keys,
        partitions=partitions if table.partition_keys else 0,
        lake_enabled=table.lake_enabled,
        lake_format=table.lake_format if table.lake_enabled else None,
        lake_location=lake_location if table.lake_enabled else None,
        freshness_ms=table.freshness_ms if table.lake_enabled else None,
        schema=column_list(table.schema),
        created_at=table.created_at,
    )
