"""Data tables as SQL sees them: the cluster's columns and options, how tiering stands, and where the lake has the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sys_tables.query.lookup import resolve_table
from tiering.coordinator.interface import NamesView
from tiering.durations import format_duration
from tiering.errors import LakeDisabled
from tiering.lake.registry import format_names, has_format, spark_runtime
from tiering.lake.table_options import AUTO_EXPIRE, SNAPSHOT_MAX_AGE, SNAPSHOT_MIN_COUNT, shown_options
from tiering.model.names import SYSTEM_DATABASE
from tiering.model.status import TableStatus
from tiering.model.tables import BUCKET_KEY, BUCKET_NUM, COMMENT, PARTITION_KEYS, PRIMARY_KEY, TABLE_ID, TABLE_TYPE, TableInfo, TablePath
from tiering.redaction.redact import redact


@dataclass(frozen=True)
class DataTable:
    """A data table as DESCRIBE shows it.

    `properties` are the table's own options, then its shape and, of a tiered table, how its lake copy stands. `lake_path` is
    empty for a table whose lake is disabled, or of a format that Spark is not handed here: what has its name in Spark's catalog of the
    lake is another table. `not_in_lake` is the error message for a lake that does not have the table. `lake_history` says how far back the
    lake can be read; it is empty for a table whose lake is disabled.
    """

    path: TablePath
    comment: str
    schema: pa.Schema
    properties: Mapping[str, str]
    lake_path: Sequence[str]
    not_in_lake: str
    primary_key: Sequence[str]
    partition_keys: Sequence[str]
    lake_history: str
    definition: Mapping[str, str]
    """The properties with which CREATE TABLE creates the same table, without the comment."""


def describe_data_table(view: NamesView, path: TablePath) -> DataTable:
    """The table that `path` names, in any case, with the user's columns. May ask the cluster.

    Raises UnknownDatabase, UnknownTable, InvalidArgument for an ambiguous name.
    """
    table = resolve_table(view, path)
    return _described(table, status_of(view, table))


def describe_data_tables(view: NamesView, tables: Sequence[TableInfo]) -> Iterator[DataTable]:
    """Yields the descriptions of tables of one database, in their order, with one look-up for all of them."""
    statuses = {status.table_name: status for status in view.table_statuses(tables[0].path.database_name)} if tables else {}
    return (_described(table, statuses.get(table.path.table_name) if table.lake_enabled else None) for table in tables)


def _described(table: TableInfo, status: TableStatus | None) -> DataTable:
    """The description of `table`. Values of the table's own options are shown if the option means something here; any other may be a
    secret.
    """
    options = {name: redact(value) for name, value in shown_options(table.properties).items()}
    keys = {name: value for name, value in _keys(table).items() if value}
    described = keys | _shape(table) | _lake(table, status)
    return DataTable(
        path=table.path,
        comment=table.properties.get(COMMENT, ""),
        schema=table.schema,
        properties=options | {name: value for name, value in described.items() if value},
        lake_path=[table.path.database_name, table.path.table_name] if _is_handed_to_spark(table) else [],
        not_in_lake=_why_not_in_spark(table) or why_not_in_lake(table, status),
        primary_key=table.primary_key,
        partition_keys=table.partition_keys,
        lake_history=lake_history(table) if table.lake_enabled else "",
        definition={name: value for name, value in options.items() if name != COMMENT} | keys,
    )


def _keys(table: TableInfo) -> dict[str, str]:
    return {
        BUCKET_NUM: str(table.bucket_count),
        BUCKET_KEY: ",".join(table.bucket_keys),
        PRIMARY_KEY: ",".join(table.primary_key),
    }


def _shape(table: TableInfo) -> dict[str, str]:
    return {
        TABLE_ID: str(table.table_id),
        TABLE_TYPE: table.table_type.value,
        PARTITION_KEYS: ",".join(table.partition_keys),
    }


def _lake(table: TableInfo, status: TableStatus | None) -> dict[str, str]:
    """Returns the properties of the lake copy: durations in ms, times in ISO 8601, UTC. Unknown values are empty."""
    if not table.lake_enabled:
        return {"lake.enabled": "false"}
    properties = {"lake.enabled": "true", "lake.format": table.lake_format, "lake.freshness-ms": str(table.freshness_ms)}
    if status is None:
        return properties
    tiered = status.last_tiered_time
    return properties | {
        "lake.status": status.status,
        "lake.lag-ms": "" if status.lag_ms is None else str(status.lag_ms),
        "lake.last-tiered-time": "" if tiered is None else tiered.isoformat(),
    }


def status_of(view: NamesView, table: TableInfo) -> TableStatus | None:
    """Returns the status of the table's tiering; None for a table that is not tiered, or that the coordinator does not know yet."""
    statuses = view.table_statuses(table.path.database_name, table.path.table_name) if table.lake_enabled else ()
    return statuses[0] if statuses else None


def _is_handed_to_spark(table: TableInfo) -> bool:
    return table.lake_enabled and has_format(table.lake_format) and spark_runtime(table.lake_format) is None


def _why_not_in_spark(table: TableInfo) -> str | None:
    """Returns the error message for a query in Spark of a copy that it reads in another catalog; None for any other."""
    runtime = spark_runtime(table.lake_format) if table.lake_enabled else None
    if runtime is None:
        return None
    return (
        f"the lake copy of {table.path} is of the format {table.lake_format}, which Spark reads in a catalog of that format's own alone, "
        f"with the jar {runtime} on its class path. The same statement runs with `lakeward sql --engine duckdb`."
    )


def why_not_in_lake(table: TableInfo, status: TableStatus | None) -> str:
    """Returns the error message for a query of rows that the lake does not have."""
    if not table.lake_enabled:
        return f"{table.path} is not tiered: its lake is disabled. {LakeDisabled.default_hint}"
    if not has_format(table.lake_format):
        formats = ", ".join(format_names())
        return f"the lake copy of {table.path} is of the format {table.lake_format}, which cannot be read here: this service has {formats}."
    if status is not None and status.last_tiered_time is not None:
        return (
            f"{table.path} was tiered at {status.last_tiered_time.isoformat(timespec='seconds')}, so its lake table was dropped, or this is"
            " another lake. `lakeward lake-conf --for spark` prints the catalog of the right one."
        )
    call = f"CALL {SYSTEM_DATABASE}.tier_table('{table.path}')"
    return f"{table.path} is not in the lake yet: its lake table comes with the first rows that are tiered. {call} tiers them now."


def lake_history(table: TableInfo) -> str:
    """Returns how far back the lake copy can be read, and which options of the table say so."""
    kept = table.snapshot_retention
    if kept is None:
        return f"Lakeward removes no snapshot of {table.path}, because its option {AUTO_EXPIRE.name} is false"
    return (
        f"Snapshots of {table.path} are kept for {format_duration(kept.max_age_ms)} (its option {SNAPSHOT_MAX_AGE.name}), and the newest "
        f"{kept.min_count} always ({SNAPSHOT_MIN_COUNT.name})"
    )
