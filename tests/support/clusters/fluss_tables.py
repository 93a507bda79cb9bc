"""Tables of a real Fluss cluster, made and written through pyfluss as an application does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import fluss
import pyarrow as pa

from support.clusters.fluss_log import type_json
from support.running.fluss_health import restart_coordinators
from tiering.cluster.fluss.log.bucket_log import BucketLog
from tiering.cluster.fluss.settings import FlussConnection
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import ClusterUnavailable
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType
from tiering.rpc.fluss import fluss_pb2 as pb

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
_ADD_COLUMN_LAST = 0
_SET = 0
"""`op_type` of an option that gets a value."""
LEADER_SECONDS = 10.0
"""How long a new table's buckets may be without a leader that answers; a second at most, as a rule."""
ANSWER_SECONDS = 60.0
MOST_ROWS = 100_000
"""More rows than any table has that is read as a whole."""
SCHEMA_SECONDS = 30.0
"""How long a tablet server may take to hear of a new column; until then it refuses rows that have it."""


class FlussTables:
    """Makes tables of the database `sales` and writes into them; each call returns when the cluster has it all."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self.connection = FlussConnection.parse(bootstrap_servers)
        self.client = FlussClient(self.connection)

    def close(self) -> None:
        self.client.close()

    def create(
        self,
        name: str,
        schema: pa.Schema,
        primary_key: Sequence[str] = (),
        *,
        buckets: int = 1,
        partition_keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        **description: Any,
    ) -> TableInfo:
        """A new table, in place of one of that name. `description`: more of it, such as `bucket_keys`, `comment`, `custom_properties`."""

        async def work(connection: Any) -> int:
            admin, path = connection.get_admin(), fluss.TablePath("sales", name)
            await admin.create_database("sales", ignore_if_exists=True)
            await admin.drop_table(path, ignore_if_not_exists=True)
            descriptor = fluss.TableDescriptor(
                fluss.Schema(schema, primary_keys=list(primary_key)),
                bucket_count=buckets,
                partition_keys=list(partition_keys),
                properties=dict(properties or {}),
                **description,
            )
            await admin.create_table(path, descriptor, False)
            return int((await admin.get_table_info(path)).table_id)

        kind, path = TableType.PRIMARY_KEY if primary_key else TableType.LOG, TablePath("sales", name)
        table_id = self._run(work)
        while not partition_keys and not self._has_leaders(path, table_id, buckets):
            table_id = self._run(work)
        return TableInfo(table_id, path, kind, schema, buckets, WHEN, primary_key=tuple(primary_key))

    def _has_leaders(self, path: TablePath, table_id: int, buckets: int, partition_id: int | None = None) -> bool:
        """False if they do not come: the coordinator of 0.9.1 at times never hears of a table that is made just after another one of its
        name was dropped, and pyfluss waits for it without end.
        """
        try:
            for bucket_id in range(buckets):
                BucketLog(self.client, path, table_id, BucketKey(partition_id, bucket_id), LEADER_SECONDS).bounds()
        except ClusterUnavailable:
            return False
        return True

    def add_partition(self, table: TableInfo, values: Mapping[str, str]) -> int:
        """A new partition; its id."""

        async def work(connection: Any) -> int:
            admin, path = connection.get_admin(), fluss.TablePath("sales", table.path.table_name)
            await admin.create_partition(path, dict(values), False)
            return max(int(partition.partition_id) for partition in await admin.list_partition_infos(path))

        partition_id = self._run(work)
        if not self._has_leaders(table.path, table.table_id, table.bucket_count, partition_id):
            restart_coordinators()  # it never heard of the table
            if not self._has_leaders(table.path, table.table_id, table.bucket_count, partition_id):
                raise ClusterUnavailable(
                    f"bucket {partition_id}/0 of {table.path} has no leader now", hint="See support/running/fluss_health.py."
                )
        return partition_id

    def drop_partition(self, table: TableInfo, values: Mapping[str, str]) -> None:
        path = fluss.TablePath("sales", table.path.table_name)
        self._run(lambda connection: connection.get_admin().drop_partition(path, dict(values)))

    def add_column(self, table: TableInfo, field: pa.Field[Any]) -> TableInfo:
        """The table with one more column, which is its last."""

        request = pb.AlterTableRequest(table_path=self.path(table), ignore_if_not_exists=False)
        request.add_columns.add(
            column_name=field.name, data_type_json=json.dumps(type_json(field.type)).encode(), column_position_type=_ADD_COLUMN_LAST
        )
        self.client.coordinator(request)
        return replace(table, schema=table.schema.append(field), added_columns=(*table.added_columns, field.name))

    def set_option(self, table: TableInfo, name: str, value: str) -> None:
        """Alters one of the options that Fluss can alter."""
        request = pb.AlterTableRequest(table_path=self.path(table), ignore_if_not_exists=False)
        request.config_changes.add(config_key=name, config_value=value, op_type=_SET)
        self.client.coordinator(request)

    def append(self, table: TableInfo, batches: Iterable[pa.RecordBatch]) -> None:
        """Rows into a log table."""

        async def work(connection: Any) -> None:
            writer = (await self._opened(connection, table)).new_append().create_writer()
            handles = [writer.write_arrow_batch(batch) for batch in batches]
            await writer.flush()
            for handle in handles:
                await handle.wait()

        self._run(work)

    def upsert(self, table: TableInfo, rows: Iterable[Mapping[str, Any]]) -> None:
        """Rows into a primary-key table."""
        self._change(table, rows, "upsert")

    def delete(self, table: TableInfo, keys: Iterable[Mapping[str, Any]]) -> None:
        """Rows out of a primary-key table, whether they are there or not."""
        self._change(table, keys, "delete")

    def lookup(self, table: TableInfo, keys: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The rows that the tablet servers have for these keys; keys without a row are left out."""

        async def work(connection: Any) -> list[dict[str, Any]]:
            lookups = (await self._opened(connection, table)).new_lookup().create_lookuper()
            rows = [await lookups.lookup(dict(key)) for key in keys]
            return [dict(row) for row in rows if row is not None]

        return list(self._run(work))

    def rows(self, table: TableInfo) -> list[dict[str, Any]]:
        """The rows that the tablet servers have of a small primary-key table."""
        return primary_key_rows(self._servers, table)

    def drop(self, table: TableInfo) -> None:
        self._run(lambda connection: connection.get_admin().drop_table(fluss.TablePath("sales", table.path.table_name)))

    @staticmethod
    def path(table: TableInfo) -> pb.PbTablePath:
        return pb.PbTablePath(database_name=table.path.database_name, table_name=table.path.table_name)

    def _change(self, table: TableInfo, rows: Iterable[Mapping[str, Any]], verb: str) -> None:
        changes = [dict(row) for row in rows]

        async def work(connection: Any) -> None:
            writer = (await self._opened(connection, table)).new_upsert().create_writer()
            handles = [getattr(writer, verb)(row) for row in changes]
            await writer.flush()  # which raises nothing for what a server refused
            for handle in handles:
                await handle.wait()

        deadline = time.monotonic() + SCHEMA_SECONDS
        while True:
            try:
                return self._run(work)
            except fluss.FlussError as error:
                if "Invalid schema id" not in str(error) or time.monotonic() > deadline:
                    raise

    async def _opened(self, connection: Any, table: TableInfo) -> Any:
        return await connection.get_table(fluss.TablePath("sales", table.path.table_name))

    def _run(self, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        return connected(self._servers, work)


def primary_key_rows(bootstrap_servers: str, table: TableInfo) -> list[dict[str, Any]]:
    """Returns the rows of a small primary-key table without partitions, by a bounded scan of each bucket."""

    async def work(connection: Any) -> list[dict[str, Any]]:
        opened = await connection.get_table(fluss.TablePath(table.path.database_name, table.path.table_name))
        buckets = [fluss.TableBucket(table.table_id, number) for number in range(table.bucket_count)]
        scans = [opened.new_scan().limit(MOST_ROWS).create_bucket_batch_scanner(bucket) for bucket in buckets]
        return [dict(row) for scan in scans for row in (await scan.to_arrow()).to_pylist()]

    rows: list[dict[str, Any]] = connected(bootstrap_servers, work)
    assert len(rows) < MOST_ROWS
    return rows


def connected(bootstrap_servers: str, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """Returns the result of `work`, which gets a connection of its own."""

    async def in_connection() -> Any:
        connection = await fluss.FlussConnection.create(fluss.Config({"bootstrap.servers": bootstrap_servers}))
        try:
            # pyfluss waits without end for a bucket that had no leader when it looked.
            return await asyncio.wait_for(work(connection), ANSWER_SECONDS)
        finally:
            await asyncio.wait_for(connection.close(), ANSWER_SECONDS)

    return asyncio.run(in_connection())
