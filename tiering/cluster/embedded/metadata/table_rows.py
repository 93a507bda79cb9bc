"""Databases and tables in the metadata. The functions use one connection; the caller controls the transaction."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from tiering.cluster.column_types import altered_schema, storable_schema
from tiering.cluster.embedded.log.bucketing import Bucketing, bucketing_for
from tiering.cluster.embedded.metadata.database import (
    NO_PARTITION,
    among,
    buckets,
    databases,
    kv_snapshots,
    partitions,
    refused_records,
    segments,
    tables,
)
from tiering.cluster.embedded.metadata.partitions import find_partition, insert_buckets
from tiering.cluster.embedded.metadata.snapshot_rows import delete_where
from tiering.cluster.key_columns import BUCKET_KEY, check_key_columns, check_primary_key, default_bucket_keys
from tiering.cluster.partition_names import check_partition_keys
from tiering.cluster.table_option_checks import check_new_freshness, check_option_name, check_options, described, with_layout
from tiering.cluster.writable import TableSpec
from tiering.errors import AlreadyExists, InvalidArgument, UnknownDatabase, UnknownTable
from tiering.instants import from_microseconds, to_microseconds
from tiering.lake.iceberg_options import check_table_options
from tiering.lake.table_options import ENABLED, FORMAT, LAYOUT
from tiering.library_guards.arrow_ipc import read_schema
from tiering.model.schema.changes import AddColumn, SchemaChange
from tiering.model.schema.field_ids import without_metadata
from tiering.model.tables import TableInfo, TablePath, TableType

MAX_BUCKETS = 4_096
"""Maximum number of buckets of a table; more would be of no use in a single-machine cluster."""


@dataclass(frozen=True)
class StoredTable:
    """A table, with properties that only the cluster itself needs."""

    info: TableInfo
    bucketing: Bucketing


def list_databases(connection: sa.Connection) -> list[str]:
    """Returns the names of all databases, sorted."""
    return list(connection.scalars(sa.select(databases.c.name).order_by(databases.c.name)))


def insert_database(connection: sa.Connection, name: str, ignore_if_exists: bool) -> None:
    """Inserts a database. Raises AlreadyExists, always for a name that differs from an existing one only in case."""
    existing = connection.scalar(sa.select(databases.c.name).where(databases.c.folded_name == name.lower()))
    if existing is None:
        connection.execute(sa.insert(databases).values(name=name, folded_name=name.lower()))
    elif existing != name or not ignore_if_exists:
        raise AlreadyExists(f"the database {existing!r} exists already", hint=_case_hint(existing, name), database_name=existing)


def delete_database(connection: sa.Connection, name: str) -> None:
    """Removes an empty database. Raises UnknownDatabase, InvalidArgument (it has tables)."""
    require_database(connection, name)
    if table := connection.scalar(sa.select(tables.c.table_name).where(tables.c.database_name == name)):
        raise InvalidArgument(f"the database {name!r} has tables, such as {table!r}", hint="Drop its tables first.", database_name=name)
    connection.execute(sa.delete(databases).where(databases.c.name == name))


def require_database(connection: sa.Connection, name: str) -> None:
    """Raises UnknownDatabase if the database does not exist."""
    if connection.scalar(sa.select(databases.c.name).where(databases.c.name == name)) is None:
        raise UnknownDatabase(f"there is no database {name!r}", hint=f"Databases: {', '.join(list_databases(connection)) or 'none yet'}.")


def list_tables(connection: sa.Connection, database_name: str | None) -> list[TableInfo]:
    """Returns tables, sorted by path. Raises UnknownDatabase."""
    query = sa.select(tables).order_by(tables.c.database_name, tables.c.table_name)
    if database_name is not None:
        require_database(connection, database_name)
        query = query.where(tables.c.database_name == database_name)
    return [_stored(row).info for row in connection.execute(query).mappings()]


def tables_by_id(connection: sa.Connection, table_ids: Collection[int]) -> list[TableInfo]:
    """Returns the existing ones of these tables."""
    query = sa.select(tables).where(tables.c.table_id.in_(among(table_ids)))
    return [_stored(row).info for row in connection.execute(query).mappings()]


def find_table(connection: sa.Connection, path: TablePath) -> StoredTable:
    """Returns a table by its path. Raises UnknownTable, UnknownDatabase."""
    query = sa.select(tables).where(tables.c.database_name == path.database_name, tables.c.table_name == path.table_name)
    row = connection.execute(query).mappings().first()
    if row is None:
        require_database(connection, path.database_name)
        raise UnknownTable(f"there is no table {path}")
    return _stored(row)


def table_exists(connection: sa.Connection, table_id: int) -> bool:
    """Returns whether the table with that id exists."""
    return connection.scalar(sa.select(tables.c.table_id).where(tables.c.table_id == table_id)) is not None


def insert_table(
    connection: sa.Connection, path: TablePath, spec: TableSpec, ignore_if_exists: bool, now: datetime
) -> tuple[TableInfo, bool]:
    """Inserts a table; returns it, and whether this call created it. Raises the errors of `WritableCluster.create_table`."""
    require_database(connection, path.database_name)
    twin = sa.select(tables.c.table_name).where(
        tables.c.database_name == path.database_name, tables.c.folded_name == path.table_name.lower()
    )
    existing = connection.scalar(twin)
    if existing is not None:
        if existing == path.table_name and ignore_if_exists:
            return find_table(connection, path).info, False
        present = TablePath(path.database_name, existing)
        raise AlreadyExists(f"the table {present} exists already", hint=_case_hint(existing, path.table_name), table_path=present)
    schema = without_metadata(storable_schema(spec.schema))
    if spec.primary_key and not spec.bucket_keys:
        spec = replace(spec, bucket_keys=default_bucket_keys(spec.primary_key, spec.partition_keys))
    _check_spec(spec, schema)
    check_table_options(spec.properties)
    check_options(spec.properties)
    inserted = connection.execute(
        sa.insert(tables).values(
            database_name=path.database_name,
            table_name=path.table_name,
            folded_name=path.table_name.lower(),
            schema=schema.serialize().to_pybytes(),
            bucket_count=spec.bucket_count,
            bucket_keys=list(spec.bucket_keys),
            bucketing=bucketing_for(spec.bucket_keys, FORMAT.of(spec.properties)).value,
            partition_keys=list(spec.partition_keys),
            primary_key=list(spec.primary_key),
            created_columns=len(schema),
            properties=with_layout(spec.properties),
            created_us=to_microseconds(now),
            lake_enabled_us=to_microseconds(now) if ENABLED.of(spec.properties) else None,
        )
    )
    if not spec.partition_keys:  # buckets of a partition are inserted with the partition
        insert_buckets(connection, int(inserted.lastrowid), [NO_PARTITION], spec.bucket_count)
    return find_table(connection, path).info, True


def _check_spec(spec: TableSpec, schema: pa.Schema) -> None:
    if not 1 <= spec.bucket_count <= MAX_BUCKETS:
        raise InvalidArgument(f"the bucket count is {spec.bucket_count}; it must be between 1 and {MAX_BUCKETS}")
    if spec.primary_key:
        check_primary_key(schema, spec.primary_key, spec.partition_keys, spec.bucket_keys)
    check_key_columns(schema, spec.bucket_keys, BUCKET_KEY)
    check_partition_keys(schema, spec.partition_keys, spec.bucket_keys)


def update_properties(connection: sa.Connection, path: TablePath, changes: Mapping[str, str | None], now: datetime) -> TableInfo:
    """Sets options, or resets them to their defaults with None, and returns the changed table. Raises the errors of
    `WritableCluster.alter_table`.

    Enabling the lake records the time; enabling it again does not.
    """
    info = find_table(connection, path).info
    for name in changes:
        check_option_name(name)
    set_properties = {name: value for name, value in changes.items() if value is not None}
    check_new_freshness(set_properties)
    # Other options are not checked: a table of an older version may have options that are refused now, but they have no effect.
    check_table_options(set_properties)
    kept = {name: value for name, value in info.properties.items() if name not in changes}
    properties = {**kept, **set_properties}
    if LAYOUT.name in info.properties:
        properties = with_layout(properties)
    check_options(properties)
    since = (info.lake_enabled_at or now) if ENABLED.of(properties) else None
    connection.execute(
        sa.update(tables)
        .where(tables.c.table_id == info.table_id)
        .values(properties=properties, lake_enabled_us=None if since is None else to_microseconds(since))
    )
    return find_table(connection, path).info


def change_columns(connection: sa.Connection, path: TablePath, changes: Sequence[SchemaChange]) -> None:
    """Changes the columns of a table. Raises the errors of `WritableCluster.alter_table`."""
    info = find_table(connection, path).info
    for change in changes:
        if not isinstance(change, AddColumn) or change.parent or change.position is not None:
            raise InvalidArgument(f"columns of {path} can only be added behind the others", table_id=info.table_id)
    schema = without_metadata(altered_schema(info.schema, changes))
    if len(schema) > len(info.schema):
        values = {"schema": schema.serialize().to_pybytes()}
        connection.execute(sa.update(tables).where(tables.c.table_id == info.table_id).values(values))


def delete_table(connection: sa.Connection, path: TablePath, table_id: int) -> None:
    """Removes the table and, by cascade, all its rows in the metadata. Raises UnknownTable, UnknownDatabase."""
    _find_same(connection, path, table_id)
    connection.execute(sa.delete(tables).where(tables.c.table_id == table_id))


def delete_partition(connection: sa.Connection, path: TablePath, table_id: int, name: str) -> tuple[int, list[str]]:
    """Removes a partition and all its rows in the metadata; returns its id and the paths of its files.

    Raises UnknownTable, UnknownDatabase, UnknownPartition.
    """
    info = _find_same(connection, path, table_id)
    partition_id = find_partition(connection, info, name)
    in_the_partition = (segments.c.table_id == info.table_id) & (segments.c.partition_id == partition_id)
    paths = list(connection.scalars(sa.select(segments.c.path).where(in_the_partition)))
    paths += delete_where(connection, (kv_snapshots.c.table_id == info.table_id) & (kv_snapshots.c.partition_id == partition_id))
    connection.execute(sa.delete(segments).where(in_the_partition))
    refused = (refused_records.c.table_id == info.table_id) & (refused_records.c.partition_id == partition_id)
    connection.execute(sa.delete(refused_records).where(refused))
    connection.execute(sa.delete(buckets).where(buckets.c.table_id == info.table_id, buckets.c.partition_id == partition_id))
    connection.execute(sa.delete(partitions).where(partitions.c.partition_id == partition_id))
    return partition_id, paths


def _find_same(connection: sa.Connection, path: TablePath, table_id: int) -> TableInfo:
    """Returns the table under `path` if it still has the same id. Raises UnknownTable, UnknownDatabase."""
    info = find_table(connection, path).info
    if info.table_id != table_id:
        raise UnknownTable(f"the table {path} was dropped", table_id=table_id)
    return info


def _stored(row: sa.RowMapping | Mapping[str, Any]) -> StoredTable:
    enabled_us = row["lake_enabled_us"]
    schema = _parsed_schema(row["schema"])
    info = TableInfo(
        table_id=row["table_id"],
        path=TablePath(row["database_name"], row["table_name"]),
        table_type=TableType.PRIMARY_KEY if row["primary_key"] else TableType.LOG,
        schema=schema,
        bucket_count=row["bucket_count"],
        created_at=from_microseconds(row["created_us"]),
        bucket_keys=tuple(row["bucket_keys"]),
        primary_key=tuple(row["primary_key"]),
        partition_keys=tuple(row["partition_keys"]),
        lake_enabled_at=None if enabled_us is None else from_microseconds(enabled_us),
        added_columns=tuple(schema.names[row["created_columns"] :]),
    )
    return StoredTable(described(info, dict(row["properties"])), Bucketing(row["bucketing"]))


@lru_cache(maxsize=1_000)
def _parsed_schema(data: bytes) -> pa.Schema:
    """Returns the parsed schema, one object for all tables with the same columns."""
    return read_schema(data)


def _case_hint(existing: str, name: str) -> str:
    return "" if existing == name else f"Names are compared without regard to case: {name!r} and {existing!r} are the same."
