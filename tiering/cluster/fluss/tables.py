"""Databases, tables and partitions of a Fluss cluster: ListDatabases, ListTables, Metadata, GetTableInfo and ListPartitionInfos."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiering.cluster.fluss.lake_record import path_to_pb
from tiering.cluster.fluss.settings import FLUSS_DEFAULTS, UpkeepDefaults
from tiering.cluster.fluss.table_json import TableDescription, table_info
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import error_code
from tiering.errors import LakewardError, UnknownDatabase, UnknownTable
from tiering.model.tables import Partition, TableInfo, TablePath
from tiering.rpc.fluss import fluss_pb2 as fluss

METADATA_TABLES = 200
"""Number of tables in one Metadata request: with a hundred columns each, the answer has some megabytes."""
PARTITION_SEPARATOR = "$"


class FlussTables:
    """Lists databases, tables and partitions. Unchanged descriptions are not parsed again. Safe to use from several threads.

    `check` is called with each listing, and raises if it cannot be of this cluster. `own_options` returns table options that Fluss does not
    keep, by table id. `defaults` apply to tables without these options.
    """

    def __init__(
        self,
        client: FlussClient,
        check: Callable[[Sequence[TableDescription]], None] = lambda descriptions: None,
        own_options: Callable[[], Mapping[int, Mapping[str, str]]] = dict,
        defaults: UpkeepDefaults = FLUSS_DEFAULTS,
    ) -> None:
        self._client = client
        self._check = check
        self._own_options = own_options
        self._defaults = defaults
        self._lock = threading.Lock()
        self._infos: dict[int, tuple[TableDescription, Mapping[str, str], TableInfo]] = {}
        self._listed: Sequence[TableInfo] = ()

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
            self._forget(listed)
            if list(self._listed) != list(listed):
                self._listed = listed
            return self._listed

    def table(self, path: TablePath) -> TableInfo:
        """Returns one table. Raises UnknownTable, UnknownDatabase."""
        description = self._describe(path)
        self._check([description])
        return self._info(description, self._own_options())

    def partitions(self, table: TableInfo) -> Sequence[Partition]:
        """Returns the partitions of a table. Raises UnknownTable if the table id does not exist any more."""
        if table.partition_keys:
            answer = self._client.coordinator(fluss.ListPartitionInfosRequest(table_path=path_to_pb(table.path)))
            partitions = tuple(Partition(info.partition_id, _name(table, info.partition_spec)) for info in answer.partitions_info)
        else:
            partitions = ()
        self.check_current(table)  # partitions are requested by name, so the table has to be the same after the answer
        return partitions

    def check_current(self, table: TableInfo) -> None:
        """Raises UnknownTable if the table does not exist any more, or another one has its name."""
        current = self._describe(table.path).table_id
        if current != table.table_id:
            raise UnknownTable(f"{table.path} was dropped and recreated", table_id=table.table_id, new_table_id=current)

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
        descriptions = [description for chunk in _chunks(paths) for description in self._describe_all(chunk)]
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
            pass
        else:
            described = {(description := _of_metadata(message)).path: description for message in answer.table_metadata}
        for path in paths:
            if path not in described:
                try:
                    described[path] = self._describe(path)
                except (UnknownTable, UnknownDatabase):
                    continue
        return list(described.values())

    def _describe(self, path: TablePath) -> TableDescription:
        answer = self._client.coordinator(fluss.GetTableInfoRequest(table_path=path_to_pb(path)))
        return TableDescription(path, answer.table_id, answer.schema_id, answer.table_json, answer.created_time, answer.modified_time)

    def _info(self, description: TableDescription, options: Mapping[int, Mapping[str, str]]) -> TableInfo:
        own = options.get(description.table_id, {})
        with self._lock:
            cached = self._infos.get(description.table_id)
            if cached is not None and cached[:2] == (description, own):
                return cached[2]
            info = table_info(description, own, self._defaults)
            self._infos[description.table_id] = (description, own, info)
            return info

    def _forget(self, listed: Sequence[TableInfo]) -> None:
        living = {info.table_id for info in listed}
        for table_id in [table_id for table_id in self._infos if table_id not in living]:
            del self._infos[table_id]


def _of_metadata(message: Any) -> TableDescription:
    path = TablePath(message.table_path.database_name, message.table_path.table_name)
    return TableDescription(path, message.table_id, message.schema_id, message.table_json, message.created_time, message.modified_time)


def _name(table: TableInfo, spec: Any) -> str:
    """Returns the values of a partition's columns in the order of the partition keys, which is Fluss's name of the partition."""
    values = {value.key: value.value for value in spec.partition_key_values}
    return PARTITION_SEPARATOR.join(values[key] for key in table.partition_keys)


def _chunks(paths: Sequence[TablePath]) -> Sequence[Sequence[TablePath]]:
    return [paths[start : start + METADATA_TABLES] for start in range(0, len(paths), METADATA_TABLES)]
