"""Data tables as SQL sees them: what the cluster says of one, how its tiering stands, and where the lake has its rows."""

from __future__ import annotations

from sys_tables.rpc.v1 import sys_catalog_pb2 as pb
from sys_tables.server.lookup import resolve_table
from tiering.coordinator.interface import CoordinatorView, TableStatus
from tiering.errors import LakeDisabled
from tiering.lake_table_options import shown_options
from tiering.model.names import SYSTEM_DATABASE
from tiering.model.tables import TableInfo, TablePath
from tiering.redaction.redact import redact


def describe_data_table(view: CoordinatorView, path: TablePath) -> pb.DescribeTableResponse:
    """The table that `path` names, in any case, with the user's columns. May ask the cluster.

    Properties are its own, then what its shape is and, of a tiered one, how its lake copy stands. The
    values of its own are shown if the option means something here; any other may be a secret.
    Raises UnknownDatabase, UnknownTable, InvalidArgument for an ambiguous name.
    """
    table = resolve_table(view, path)
    status = status_of(view, table)
    own = {name: redact(value) for name, value in shown_options(table.properties).items()}
    said = _shape(table) | _lake(table, status)
    return pb.DescribeTableResponse(
        name=table.path.table_name,
        comment=table.properties.get("comment", ""),
        schema=table.schema.serialize().to_pybytes(),
        properties=own | {name: value for name, value in said.items() if value},
        lake_path=[table.path.database_name, table.path.table_name] if table.lake_enabled else [],
        not_in_lake=why_not_in_lake(table, status),
        primary_key=table.primary_key,
        partition_keys=table.partition_keys,
    )


def _shape(table: TableInfo) -> dict[str, str]:
    return {
        "table-id": str(table.table_id),
        "table-type": table.table_type.value,
        "bucket.num": str(table.bucket_count),
        "bucket.key": ",".join(table.bucket_keys),
        "primary.key": ",".join(table.primary_key),
        "partition.keys": ",".join(table.partition_keys),
    }


def _lake(table: TableInfo, status: TableStatus | None) -> dict[str, str]:
    """Durations in ms, times in ISO 8601, UTC. What is unknown is empty."""
    if not table.lake_enabled:
        return {"lake.enabled": "false"}
    said = {"lake.enabled": "true", "lake.format": table.lake_format, "lake.freshness-ms": str(table.freshness_ms)}
    if status is None:
        return said
    tiered = status.last_tiered_time
    return said | {
        "lake.status": status.status,
        "lake.lag-ms": "" if status.lag_ms is None else str(status.lag_ms),
        "lake.last-tiered-time": "" if tiered is None else tiered.isoformat(),
    }


def status_of(view: CoordinatorView, table: TableInfo) -> TableStatus | None:
    """How its tiering stands; None for one that is not tiered, or that the coordinator has not met yet."""
    statuses = view.table_statuses(table.path.database_name, table.path.table_name) if table.lake_enabled else ()
    return statuses[0] if statuses else None


def why_not_in_lake(table: TableInfo, status: TableStatus | None) -> str:
    """What to say to whoever wants rows that the lake does not have."""
    if not table.lake_enabled:
        return f"{table.path} is not tiered: its lake is disabled. {LakeDisabled.default_hint}"
    if status is not None and status.last_tiered_time is not None:
        return (
            f"{table.path} was tiered at {status.last_tiered_time.isoformat(timespec='seconds')}, so its lake table was dropped, or this is"
            " another lake. `lakeward lake-conf --for spark` prints the catalog of the right one."
        )
    call = f"CALL {SYSTEM_DATABASE}.tier_table('{table.path}')"
    return f"{table.path} is not in the lake yet: its lake table comes with the first rows that are tiered. {call} tiers them now."
