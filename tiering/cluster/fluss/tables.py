"""Databases, tables and partitions of a Fluss cluster: ListDatabases, ListTables, Metadata, GetTableInfo and ListPartitionInfos."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tiering.cluster.fluss.settings import UpkeepDefaults
from tiering.cluster.fluss.table_json import HISTORICAL_OPTION, HISTORICAL_PARTITION, TableDescription, historical_rows_refusal, table_info
from tiering.cluster.fluss.wire.api import path_to_pb
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import AUTHORIZATION, error_code
from tiering.errors import ClusterAccessDenied, LakewardError, UnknownDatabase, UnknownTable
from tiering.lake.layouts import Layout
from tiering.model.tables import PARTITION_SEPARATOR, Partition, TableInfo, TablePath
from tiering.rpc.fluss import fluss_pb2 as fluss

METADATA_TABLES = 200
"""Number of tables in one Metadata request: with a hundred columns each, the answer has some megabytes."""


class FlussTables:
    """Lists databases, tables and partitions. Unchanged descriptions are not parsed again. Safe to use from several threads.

    `defaults` apply to tables without these options.
    """

    def __init__(self, client: FlussClient, defaults: UpkeepDefaults) -> None:
        self._client = client
        self._defaults = defaults
        self._lock = threading.Lock()
        self._infos: dict[int, tuple[TableDescription, Mapping[str, str], TableInfo]] = {}
        self._listed: Sequence[TableInfo] = ()
        self._bucket_counts: dict[int, Mapping[int, int]] = {}
        """Numbers of buckets of partitions by table id and partition id, from Metadata."""

    def databases(self) -> Sequence[str]:
        """Returns the names of all databases, sorted."""
        return sorted(self._client.coordinator(fluss.ListDatabasesRequest()).database_name)

    def tables(self, database_name: str | None = None) -> Sequence[TableInfo]:
        """Returns all tables, or those of a database, sorted by path; the same list object while nothing changes. Raises
        UnknownDatabase.
        """
        if database_name is not None:
            return self._read(self._paths([database_name]))
        databases = self.databases()
        listed = self._read(self._paths(databases))
        with self._lock:
            self._infos = {info.table_id: self._infos[info.table_id] for info in listed if info.table_id in self._infos}
            if list(self._listed) != list(listed):
                self._listed = listed
            return self._listed

    def table(self, path: TablePath) -> TableInfo:
        """Returns one table. Raises UnknownTable, UnknownDatabase.

        Fluss creates clean lake tables from 1.0 on (FIP-27), so a lake table that a round creates is clean there.
        """
        description = self._describe(path)
        self._check([description])
        info = self._info(description, self._own_options())
        if self._client.is_release_1():
            info = replace(info, new_layout=Layout.CLEAN.value)
        if info.refusal is None and HISTORICAL_OPTION in info.properties and self._has_historical_partition(info):
            return replace(info, refusal=historical_rows_refusal())
        return info

    def _has_historical_partition(self, table: TableInfo) -> bool:
        request = fluss.ListPartitionInfosRequest(table_path=path_to_pb(table.path), include_system_partitions=True)
        partitions = self._client.coordinator(request).partitions_info
        return any(_name(table, partition.partition_spec) == HISTORICAL_PARTITION for partition in partitions)

    def hidden_reason(self, table_id: int, path: TablePath) -> str | None:
        """Returns why ListTables leaves out this table although it exists; None = it was dropped.

        Fluss lists only what its user may describe. Without the privilege it answers with an authorization error, even for a dropped table.
        So such a table counts as existing. Implements `HidingCatalog.hidden_reason`.
        """
        try:
            is_same = self._describe(path).table_id == table_id
        except (UnknownTable, UnknownDatabase):
            return None
        except ClusterAccessDenied as error:
            if error_code(error) != AUTHORIZATION:
                raise
            return f"{error.message}. {error.hint}"
        return "the cluster left it out of its list of tables" if is_same else None

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        """Returns the partitions of a table. Raises UnknownTable if the table id does not exist any more."""
        if table.partition_keys:
            answer = self._client.coordinator(fluss.ListPartitionInfosRequest(table_path=path_to_pb(table.path)))
            partitions = self._with_buckets(
                table,
                [
                    Partition(info.partition_id, _name(table, info.partition_spec), info.bucket_count or None)
                    for info in answer.partitions_info
                ],
            )
        else:
            partitions = ()
        self.check_current(table)  # partitions are requested by name, so the table has to be the same after the answer
        return partitions

    def _with_buckets(self, table: TableInfo, partitions: Sequence[Partition]) -> Sequence[Partition]:
        """Returns the partitions with their own numbers of buckets. Before 1.0, all partitions have the number of their table.

        A number that ListPartitionInfos lacks comes from Metadata, and is remembered because it never changes.
        """
        with self._lock:
            known_counts = self._bucket_counts.get(table.table_id, {})
        unknown = [part.partition_id for part in partitions if part.bucket_count is None and part.partition_id not in known_counts]
        if unknown and self._client.is_release_1():
            living = {part.partition_id for part in partitions}
            known_counts = {number: count for number, count in known_counts.items() if number in living}
            known_counts |= self._client.bucket_counts(table.table_id, table.path, unknown)
            with self._lock:
                self._bucket_counts[table.table_id] = known_counts
        return tuple(
            part if part.bucket_count is not None else replace(part, bucket_count=known_counts.get(part.partition_id))
            for part in partitions
        )

    def check_current(self, table: TableInfo) -> None:
        """Raises UnknownTable if the table does not exist any more, or another one has its name."""
        current = self._describe(table.path).table_id
        if current != table.table_id:
            raise UnknownTable(f"{table.path} was dropped and recreated", table_id=table.table_id, new_table_id=current)

    def _check(self, descriptions: Sequence[TableDescription]) -> None:
        """Raises ClusterUnavailable if the described tables cannot be of this cluster. A tierer does not check this."""

    def _own_options(self) -> Mapping[int, Mapping[str, str]]:
        """Returns table options that Fluss does not keep, by table id. Only the coordinator knows them."""
        return {}

    def _paths(self, databases: Sequence[str]) -> list[TablePath]:
        paths: list[TablePath] = []
        for name in databases:
            try:
                names = self._client.coordinator(fluss.ListTablesRequest(database_name=name)).table_name
            except UnknownDatabase:
                if len(databases) == 1:
                    raise
                continue  # dropped since it was listed
            paths += [TablePath(name, table) for table in names]
        return sorted(paths)

    def _read(self, paths: Sequence[TablePath]) -> Sequence[TableInfo]:
        starts = range(0, len(paths), METADATA_TABLES)
        descriptions = [description for start in starts for description in self._describe_all(paths[start : start + METADATA_TABLES])]
        self._check(descriptions)
        options = self._own_options()
        return tuple(self._info(description, options) for description in sorted(descriptions, key=lambda description: description.path))

    def _describe_all(self, paths: Sequence[TablePath]) -> list[TableDescription]:
        """Returns the descriptions of the tables that still exist: with one request for all of them, otherwise with one for each
        (docs/fluss-facts.md, H4).
        """
        described: dict[TablePath, TableDescription] = {}
        try:
            answer = self._client.coordinator(fluss.MetadataRequest(table_path=[path_to_pb(path) for path in paths]))
        except LakewardError as error:
            if error_code(error) is None:
                raise
            # One of the tables does not exist any more: the server then answers for none, with any error code.
        else:
            described = {(description := _of_metadata(message)).path: description for message in answer.table_metadata}
        for path in paths:
            if path not in described:
                try:
                    described[path] = self._describe(path)
                except (UnknownTable, UnknownDatabase):
                    continue
                except ClusterAccessDenied as error:  # other tables are listed; `hidden_reason` tells that this one exists
                    if error_code(error) != AUTHORIZATION:
                        raise
        return list(described.values())

    def _describe(self, path: TablePath) -> TableDescription:
        answer = self._client.coordinator(fluss.GetTableInfoRequest(table_path=path_to_pb(path)))
        return _described(path, answer)

    def _info(self, description: TableDescription, options: Mapping[int, Mapping[str, str]]) -> TableInfo:
        own = options.get(description.table_id, {})
        with self._lock:
            cached = self._infos.get(description.table_id)
            if cached is not None and cached[:2] == (description, own):
                return cached[2]
            info = table_info(description, own, self._defaults)
            self._infos[description.table_id] = (description, own, info)
            return info


def _of_metadata(message: Any) -> TableDescription:
    return _described(TablePath(message.table_path.database_name, message.table_path.table_name), message)


def _described(path: TablePath, message: Any) -> TableDescription:
    return TableDescription(path, message.table_id, message.schema_id, message.table_json, message.created_time)


def _name(table: TableInfo, spec: Any) -> str:
    """Returns the values of a partition's columns in the order of the partition keys, which is Fluss's name of the partition."""
    values = {value.key: value.value for value in spec.partition_key_values}
    return PARTITION_SEPARATOR.join(values[key] for key in table.partition_keys)
