"""A `WritableCluster` on Fluss: it creates tables and writes rows through pyfluss, and changes tables through AlterTable.

It has limits that come from Fluss. Fluss remembers no writer across connections, so a repeated write is written again
(`remembers_writers`). A failed write may have been written in part. Fluss returns no offsets, so the ranges of a write are the growth of
its buckets' logs in the meantime, including rows of other writers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
from tenacity import RetryCallState, Retrying, retry_if_exception, retry_if_exception_type, retry_if_result, stop_after_delay, wait_fixed
from tenacity.retry import retry_base

from tiering.cluster.column_types import storable_schema
from tiering.cluster.fluss.log.schemas import PLAIN_TYPES
from tiering.cluster.fluss.settings import FlussConnection, FlussSettings
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.table_options import (
    ALTERABLE,
    check_option,
    check_own,
    in_fluss_words,
    is_of_fluss,
    nearest_known,
    option_change,
)
from tiering.cluster.fluss.wire.api import path_to_pb
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import OVERLOOKED
from tiering.cluster.fluss.writing.native_client import NativeClient
from tiering.cluster.key_columns import check_log_table, check_primary_key_table, fit_keys, last_of_each_key
from tiering.cluster.rows import fit_columns
from tiering.cluster.writable import AppendedRange, Rows, TableSpec
from tiering.errors import ClusterUnavailable, InvalidArgument, LakewardError, UnsupportedType
from tiering.lake.iceberg_options import check_table_options
from tiering.model.names import check_database, table_path
from tiering.model.schema.changes import AddColumn, SchemaChange
from tiering.model.tables import PARTITION_SEPARATOR, BucketKey, BucketOffsets, TableInfo, TablePath
from tiering.rpc.fluss import fluss_pb2 as pb

_LAST = 0
"""AlterTable: position of a column."""
MAX_WRITE_BYTES = 64 << 20
"""Maximum size of one write, which waits for all its acknowledgements, and reads the offsets before and after it."""
UNKNOWN_SCHEMA = "Invalid schema id"
"""Part of a tablet server's error for rows with a column that it does not know yet."""
IS_SCHEMA_UNKNOWN = retry_if_exception(lambda error: isinstance(error, LakewardError) and UNKNOWN_SCHEMA in error.message)
"""Upserts and deletes are repeated after this error. That is harmless, because the keys end up the same."""
READY_SECONDS, _PAUSE_SECONDS = 30.0, 0.1
"""Longest time until each bucket of a new table has a leader, and the pause between two looks."""
GROWTH_SECONDS = 5.0
"""Longest time that acknowledged rows may be missing at the end of a log."""


@contextmanager
def fluss_writer(options: FlussConnection, settings: FlussSettings | None = None) -> Iterator[FlussWriter]:
    """Opens a writer to a cluster. Without `settings` the cluster need not belong to a coordinator. Raises SetupError if pyfluss is not
    installed.
    """
    settings = settings or FlussSettings(options.bootstrap_servers, ",".join(options.bootstrap_servers))
    with closing(FlussWriter(options, FlussClient(options), settings)) as writer:
        yield writer


class FlussWriter(FlussSource):
    """Reads and writes a cluster. It closes its client. Implements `WritableCluster`."""

    remembers_writers = False
    max_write_bytes = MAX_WRITE_BYTES

    def __init__(self, connection: FlussConnection, client: FlussClient, settings: FlussSettings) -> None:
        super().__init__(connection, client, settings)
        self._native = NativeClient(connection)

    def check_options(self, properties: Mapping[str, str]) -> None:
        """Checks Lakeward's options; only the cluster knows its own options, and refuses unknown ones."""
        check_table_options(properties)
        check_own(properties)

    def create_database(self, name: str, ignore_if_exists: bool = False) -> None:
        """Creates a database; Fluss distinguishes names that differ only in case."""
        self._native.create_database(check_database(name), ignore_if_exists)

    def drop_database(self, name: str, *, cascade: bool = True) -> None:
        """Drops a database, with `cascade` also its tables. Raises UnknownDatabase, InvalidArgument (it has tables)."""
        self._native.drop_database(check_database(name), cascade=cascade)

    def create_table(self, path: TablePath, spec: TableSpec, ignore_if_exists: bool = False) -> TableInfo:
        """Creates a table; returns when each bucket has a leader."""
        path = table_path(path.database_name, path.table_name)
        check_own(spec.properties)
        keys = {*spec.primary_key, *spec.bucket_keys, *spec.partition_keys}
        schema = pa.schema([field.with_nullable(field.nullable and field.name not in keys) for field in storable_schema(spec.schema)])
        own = {name: in_fluss_words(name, value) for name, value in spec.properties.items() if is_of_fluss(name)}
        shape = {
            "bucket_count": spec.bucket_count,
            "bucket_keys": list(spec.bucket_keys),
            "partition_keys": list(spec.partition_keys),
            "properties": own,
            "custom_properties": {name: value for name, value in spec.properties.items() if name not in own},
        }
        try:
            self._native.create_table(path, schema, spec.primary_key, ignore_if_exists, **shape)
        except InvalidArgument as error:
            error.hint = error.hint or nearest_known(own)
            raise
        table = self.table(path)
        self._wait_for_leaders(table)
        return table

    def drop_table(self, path: TablePath) -> None:
        self._native.drop_table(path)

    def drop_partition(self, path: TablePath, partition_name: str) -> None:
        self._native.drop_partition(path, _partition_values(self.table(path), partition_name))

    def create_partitions(self, path: TablePath, names: Sequence[str]) -> None:
        """Creates the missing ones of these partitions, one after the other. Raises UnknownTable, InvalidArgument."""
        table = self.table(path)
        for name in names:
            self._native.create_partition(path, _partition_values(table, name))
        self._wait_for_leaders(table)

    def alter_table(self, path: TablePath, set_properties: Mapping[str, str | None], changes: Sequence[SchemaChange] = ()) -> TableInfo:
        """Adds columns and then sets options, or resets them with None, because Fluss accepts no request with both.

        Raises InvalidArgument for Lakeward's options, which the coordinator keeps, and for other changes of columns.
        """
        table = self.table(path)
        options, columns = (pb.AlterTableRequest(table_path=path_to_pb(path), ignore_if_not_exists=False) for _ in range(2))
        for name, value in set_properties.items():
            if not is_of_fluss(name):
                raise InvalidArgument(
                    f"Fluss does not keep the option {name!r}",
                    hint=f"Set it with `lakeward set-option`. Fluss can alter {', '.join(ALTERABLE)}.",
                )
            check_option(name, value)
            options.config_changes.append(option_change(name, value))
        for field in _new_columns(table, changes):
            described = type_json(field.name, field.type)
            columns.add_columns.add(column_name=field.name, data_type_json=described, column_position_type=_LAST)
        for request in (columns, options):
            if request.config_changes or request.add_columns:
                self._client.coordinator(request)
        return self.table(path)

    def append(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        table = self.table(path)
        check_log_table(table)
        batch = fit_columns(rows, table.schema, _nullable(table))
        self._make_partitions(table, batch)
        before = self.offsets(table)
        if batch.num_rows:
            self._native.append(path, _by_partition(table, batch))
        return self._grown_by(batch.num_rows, table, before)

    def upsert(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        table = self.table(path)
        check_primary_key_table(table)
        batch = fit_columns(rows, table.schema, _nullable(table))
        batch = batch.take(last_of_each_key(batch.select(table.primary_key)))  # Fluss would log each row of a key
        self._make_partitions(table, batch)
        before = self.offsets(table)
        _retrying(READY_SECONDS, IS_SCHEMA_UNKNOWN)(self._native.upsert, path, batch)
        return self._grown(table, before)

    def delete(self, path: TablePath, keys: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Deletes keys, within the limits that the module's docstring names; keys of missing partitions are ignored."""
        table = self.table(path)
        check_primary_key_table(table)
        batch = fit_keys(keys, table)
        if table.partition_keys:
            present = {partition.partition_name for partition in self.partitions(table)}
            names = _partition_names(table, batch)
            batch = batch.filter(pa.array([name in present for name in names], pa.bool_()))
        self._make_partitions(table, batch)
        before = self.offsets(table)
        _retrying(READY_SECONDS, IS_SCHEMA_UNKNOWN)(self._native.delete, path, batch)
        return self._grown(table, before)

    def close(self) -> None:
        """Closes the connections, also those of pyfluss."""
        self._native.close()
        super().close()

    def _make_partitions(self, table: TableInfo, batch: pa.RecordBatch) -> None:
        """Creates the missing partitions of the rows. A write of these rows then goes only to the partitions that exist after this call."""
        partitions = self.partitions(table) if table.partition_keys else ()
        present = {partition.partition_name for partition in partitions}
        new = sorted(set(_partition_names(table, batch)) - present) if table.partition_keys else []
        for name in new:
            self._native.create_partition(table.path, _partition_values(table, name))
        if new:
            self._wait_for_leaders(table)
            partitions = self.partitions(table)
        ids = frozenset(partition.partition_id for partition in partitions)
        self._native.expect(table.path, (table.table_id, len(table.schema), ids))

    def _wait_for_leaders(self, table: TableInfo) -> None:
        """Waits for the leaders of a new table, or of new partitions. Raises ClusterUnavailable if a bucket has none after
        READY_SECONDS.
        """
        try:
            _retrying(READY_SECONDS, retry_if_exception_type(ClusterUnavailable))(self.offsets, table)
        except ClusterUnavailable as error:
            error.hint = OVERLOOKED
            raise

    def _grown_by(self, rows: int, table: TableInfo, before: Mapping[BucketKey, BucketOffsets]) -> Sequence[AppendedRange]:
        """Returns the growth of a log table's logs once it is `rows`: pyfluss returns one answer for a batch whose rows go to several
        buckets.

        Raises ClusterUnavailable if the logs stay shorter. A new leader may not know at once how far its log is replicated.
        """
        ranges = _retrying(GROWTH_SECONDS, retry_if_result(lambda ranges: _records(ranges) < rows))(self._grown, table, before)
        if (missing := rows - _records(ranges)) > 0:
            raise ClusterUnavailable(
                f"{missing} of {rows} rows are not in {table.path}, although the cluster refused none of them",
                hint="A partition may have been dropped, or a tablet server may have ended. "
                "If all rows are written again, the other rows are doubled.",
                table_id=table.table_id,
            )
        return ranges

    def _grown(self, table: TableInfo, before: Mapping[BucketKey, BucketOffsets]) -> Sequence[AppendedRange]:
        after = self.offsets(table)
        start = {bucket: before[bucket].log_end if bucket in before else offsets.log_start for bucket, offsets in after.items()}
        grown = [bucket for bucket, offsets in after.items() if offsets.log_end > start[bucket]]
        return [AppendedRange(bucket, start[bucket], after[bucket].log_end) for bucket in sorted(grown, key=BucketKey.sort_key)]


def _retrying(seconds: float, condition: retry_base) -> Retrying:
    """Returns what repeats a call for some seconds while the condition holds. Then the last result or error counts."""
    return Retrying(retry=condition, stop=stop_after_delay(seconds), wait=wait_fixed(_PAUSE_SECONDS), retry_error_callback=_last_outcome)


def _last_outcome(state: RetryCallState) -> Any:
    assert state.outcome is not None
    return state.outcome.result()


def _records(ranges: Sequence[AppendedRange]) -> int:
    return sum(appended.stopping_offset - appended.starting_offset for appended in ranges)


def _nullable(table: TableInfo) -> list[str]:
    """Returns the columns that a write may leave out. Fluss does not say which of them were added later."""
    return [field.name for field in table.schema if field.nullable]


def _new_columns(table: TableInfo, changes: Sequence[SchemaChange]) -> list[pa.Field[Any]]:
    """Returns the columns that the table lacks.

    Raises InvalidArgument for a column that is NOT NULL or exists with another type, and for other changes than columns behind the others.
    """
    new: list[pa.Field[Any]] = []
    added = [change.field for change in changes if isinstance(change, AddColumn) and not change.parent and change.position is None]
    if len(added) < len(changes):
        raise InvalidArgument(
            f"Fluss can only add columns to {table.path}, behind the others",
            hint="Create another table with the other columns, and load it.",
            table_id=table.table_id,
        )
    for field in storable_schema(pa.schema(list(added))) if added else ():
        if field.name not in table.schema.names:
            if not field.nullable:
                raise InvalidArgument(f"the column {field.name!r} is NOT NULL", hint="The existing rows have NULL there: make it nullable.")
            new.append(field)
        elif table.schema.field(field.name).type != field.type:
            have = table.schema.field(field.name).type
            raise InvalidArgument(f"the table {table.path} has a column {field.name!r} of type {have}, not {field.type}")
    return new


def _by_partition(table: TableInfo, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Returns the rows in batches of one partition each, in their order."""
    if not table.partition_keys:
        return [batch]
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, name in enumerate(_partition_names(table, batch)):
        places[name].append(place)
    return [batch.take(rows) for rows in places.values()]


def _partition_names(table: TableInfo, batch: pa.RecordBatch) -> list[str]:
    columns = [batch.column(name).to_pylist() for name in table.partition_keys]
    return [PARTITION_SEPARATOR.join(map(str, values)) for values in zip(*columns, strict=True)]


def _partition_values(table: TableInfo, name: str) -> dict[str, str]:
    values = name.split(PARTITION_SEPARATOR)
    if len(values) != len(table.partition_keys):
        raise InvalidArgument(f"{name!r} is not a partition of {table.path}, which has {', '.join(table.partition_keys) or 'none'}")
    return dict(zip(table.partition_keys, values, strict=True))


_PLAIN = {kind: name for name, kind in PLAIN_TYPES.items() if name != "CHAR"}
MICROSECONDS = 6
"""Number of digits of a second's fraction."""


def type_json(column: str, kind: pa.DataType) -> bytes:
    """Returns the description of a nullable column's type for AlterTable. Raises UnsupportedType, which names the column."""
    return json.dumps(_described(column, kind)).encode()


def _described(column: str, kind: pa.DataType) -> dict[str, Any]:
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if isinstance(kind, pa.Decimal128Type):
        return {"type": "DECIMAL", "precision": kind.precision, "scale": kind.scale}
    if isinstance(kind, pa.TimestampType) and kind.unit == "us":
        zone = "WITHOUT_TIME_ZONE" if kind.tz is None else "WITH_LOCAL_TIME_ZONE"
        return {"type": f"TIMESTAMP_{zone}", "precision": MICROSECONDS}
    if isinstance(kind, pa.ListType):
        return {"type": "ARRAY", "element_type": _described(column, kind.value_type)}
    if isinstance(kind, pa.MapType):
        key = {**_described(column, kind.key_type), "nullable": False}
        return {"type": "MAP", "key_type": key, "value_type": _described(column, kind.item_type)}
    if isinstance(kind, pa.StructType):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        described = [{"name": field.name, "field_type": _described(column, field.type), "field_id": -1} for field in fields]
        return {"type": "ROW", "fields": described}
    raise UnsupportedType(f"column {column!r} has type {kind}, which a Fluss table cannot hold", column=column, type=kind)
