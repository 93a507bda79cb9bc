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
    FIRST_SCHEMA,
    NO_PARTITION,
    among,
    buckets,
    databases,
    kv_snapshots,
    partitions,
    refused_records,
    segments,
    table_schemas,
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
from tiering.model.schema.changes import SchemaChange
from tiering.model.schema.field_ids import field_id, with_field_ids, without_field_ids
from tiering.model.tables import TableInfo, TablePath, TableType

MAX_BUCKETS = 4_096
"""Maximum number of buckets of a table; more would be of no use in a single-machine cluster."""


_TABLES = sa.select(tables, table_schemas.c.schema).join(
    table_schemas, (table_schemas.c.table_id == tables.c.table_id) & (table_schemas.c.schema_id == tables.c.schema_id)
)
"""Tables with their present columns."""


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
    query = _TABLES.order_by(tables.c.database_name, tables.c.table_name)
    if database_name is not None:
        require_database(connection, database_name)
        query = query.where(tables.c.database_name == database_name)
    return [_stored(row).info for row in connection.execute(query).mappings()]


def tables_by_id(connection: sa.Connection, table_ids: Collection[int]) -> list[TableInfo]:
    """Returns the existing ones of these tables."""
    query = _TABLES.where(tables.c.table_id.in_(among(table_ids)))
    return [_stored(row).info for row in connection.execute(query).mappings()]


def find_table(connection: sa.Connection, path: TablePath) -> StoredTable:
    """Returns a table by its path. Raises UnknownTable, UnknownDatabase."""
    query = _TABLES.where(tables.c.database_name == path.database_name, tables.c.table_name == path.table_name)
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
    schema = with_field_ids(pa.schema([without_field_ids(field) for field in storable_schema(spec.schema)]))
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
            schema_id=FIRST_SCHEMA,
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
    _insert_schema(connection, int(inserted.lastrowid), FIRST_SCHEMA, schema)
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


@dataclass(frozen=True)
class ColumnChanges:
    """A request to change the columns of the table with that id."""

    table_id: int
    changes: Sequence[SchemaChange]
    change_id: str | None
    """Identifies the request, so that a repeated one changes nothing; None = it is not repeated."""


def change_columns(connection: sa.Connection, info: TableInfo, request: ColumnChanges) -> bool:
    """Changes the columns of a table. Returns False if an earlier attempt of this request has done so.

    Raises UnknownTable, and the errors of `WritableCluster.alter_table`.
    """
    if info.table_id != request.table_id:
        raise UnknownTable(f"the table {info.path} was dropped", table_id=request.table_id)
    if request.change_id is not None:
        same = (table_schemas.c.table_id == info.table_id) & (table_schemas.c.change_id == request.change_id)
        if connection.scalar(sa.select(table_schemas.c.schema_id).where(same)) is not None:
            return False
    schema = altered_schema(info.schema, request.changes, {*info.primary_key, *info.bucket_keys, *info.partition_keys})
    if schema is not info.schema:
        _insert_schema(connection, info.table_id, info.schema_id + 1, schema, request.change_id)
        connection.execute(sa.update(tables).where(tables.c.table_id == info.table_id).values(schema_id=info.schema_id + 1))
    return True


def columns_at(connection: sa.Connection, table_id: int, schema_id: int) -> pa.Schema:
    """Returns the columns that a table had with this schema id. Raises UnknownTable, InvalidArgument (an unknown schema id)."""
    same = (table_schemas.c.table_id == table_id) & (table_schemas.c.schema_id == schema_id)
    content = connection.scalar(sa.select(table_schemas.c.schema).where(same))
    if content is None:
        if table_exists(connection, table_id):
            raise InvalidArgument(f"the table with id {table_id} has no columns with the schema id {schema_id}", table_id=table_id)
        raise UnknownTable(f"the table with id {table_id} does not exist", table_id=table_id)
    return _parsed_schema(content)


def with_columns_at(connection: sa.Connection, table: StoredTable, schema_id: int) -> StoredTable:
    """Returns the table with its columns at this schema id. Raises UnknownTable."""
    info = table.info
    if schema_id == info.schema_id:
        return table
    created = connection.scalar(sa.select(tables.c.created_columns).where(tables.c.table_id == info.table_id))
    schema = columns_at(connection, info.table_id, schema_id)
    return replace(table, info=replace(info, schema=schema, schema_id=schema_id, added_columns=_added_columns(schema, created or 0)))


def _insert_schema(connection: sa.Connection, table_id: int, schema_id: int, schema: pa.Schema, change_id: str | None = None) -> None:
    values = {"table_id": table_id, "schema_id": schema_id, "schema": schema.serialize().to_pybytes(), "change_id": change_id}
    connection.execute(sa.insert(table_schemas).values(values))


def _added_columns(schema: pa.Schema, created_columns: int) -> tuple[str, ...]:
    """Returns the names of the columns that a new table did not have. A new table's columns have the lowest field ids."""
    return tuple(field.name for field in schema if (field_id(field) or 0) > created_columns)


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
        added_columns=_added_columns(schema, row["created_columns"]),
        schema_id=row["schema_id"],
    )
    return StoredTable(described(info, dict(row["properties"])), Bucketing(row["bucketing"]))


@lru_cache(maxsize=1_000)
def _parsed_schema(data: bytes) -> pa.Schema:
    """Returns the parsed schema, one object for all tables with the same columns."""
    return read_schema(data)


def _case_hint(existing: str, name: str) -> str:
    return "" if existing == name else f"Names are compared without regard to case: {name!r} and {existing!r} are the same."
