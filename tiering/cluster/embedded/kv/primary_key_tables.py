"""Primary-key tables: upserts and deletes, and KV snapshots of their rows.

A write looks up its keys in a KV state to which the whole log was applied, publishes the changelog, and applies it only then. A crash in
between leaves a state that is behind its log; the next use applies the missing records. Each table has one lock; readers never take it.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
import structlog

from tiering import crash_points
from tiering.clock import Clock, Ids
from tiering.cluster.capabilities import SkipOutcome, SkippedRecord, SkipRequest
from tiering.cluster.embedded.kv.catch_up import RecordRefused, catch_up, read_changes
from tiering.cluster.embedded.kv.refused_records import (
    RefusedRecord,
    blocking_record,
    changes_of_nothing,
    insert_refused,
    mark_skipped,
    refused_of_table,
    stopped,
)
from tiering.cluster.embedded.kv.snapshot_files import StoredSnapshot, files_exist, remove_files, write_snapshot_files
from tiering.cluster.embedded.kv.state import KvState, remove_state, state_file
from tiering.cluster.embedded.log.appends import EarlierWrite, WriteKey, WrittenColumns, write_key
from tiering.cluster.embedded.log.log import Log
from tiering.cluster.embedded.log.placing import place_rows
from tiering.cluster.embedded.metadata.database import Metadata
from tiering.cluster.embedded.metadata.lease_rows import SteadyTime, end_expired
from tiering.cluster.embedded.metadata.partitions import find_partition, list_partitions
from tiering.cluster.embedded.metadata.snapshot_rows import delete_superseded, insert_snapshot, newest_snapshots, snapshots_of_bucket
from tiering.cluster.embedded.metadata.table_rows import StoredTable, find_table
from tiering.cluster.embedded.stored_columns import as_present, columns_in, versions_of
from tiering.cluster.key_columns import (
    SKIPS,
    SNAPSHOTS,
    UPSERTS,
    Refusal,
    check_primary_key_table,
    fit_keys,
    key_schema,
    last_of_each_key,
)
from tiering.cluster.rows import fit_rows
from tiering.cluster.writable import AppendedRange, Rows
from tiering.errors import ClusterUnavailable, DataCorrupt, InvalidArgument, LakewardError, UnknownTable
from tiering.instants import to_microseconds
from tiering.library_guards.arrow_ipc import rows_bytes
from tiering.model.leases import KvSnapshot
from tiering.model.refused_records import text_of
from tiering.model.tables import CHANGE_TYPE_FIELD, BucketKey, ChangeType, TableInfo, TablePath
from tiering.redaction.redact import redact

MAX_OPEN_STATES = 8
"""Maximum number of open states, each of which may take `kv_state.MEMORY_LIMIT`. The least recently used ones are closed."""
KV_STATE_RECREATED = "kv_state_recreated"
"""Log event: a KV state could not be used and is built again from the log."""

_log = structlog.get_logger(__name__)
Answer = TypeVar("Answer")


class PrimaryKeyTables:
    """All primary-key tables of one cluster."""

    def __init__(self, root: Path, metadata: Metadata, log: Log, clock: Clock, ids: Ids, lease_time: SteadyTime) -> None:
        self._root = root
        self._metadata = metadata
        self._changes = log
        self._clock = clock
        self._lease_time = lease_time
        self._ids = ids
        self._closed = False
        self._guard = threading.Lock()
        self._locks: dict[int, threading.RLock] = {}
        self._states: dict[int, KvState] = {}
        """Open states, the most recently used last. A table's entry is accessed only under the table's lock."""
        self._refused: dict[int, dict[BucketKey, list[RefusedRecord]]] = {}
        """Refused records by table. A table's entry is accessed only under the table's lock."""

    def close(self) -> None:
        """Closes each state after its current write has ended; later calls raise ClusterUnavailable."""
        self._closed = True
        for table_id, lock in list(self._locks.items()):
            with lock:
                self._close(table_id)

    def upsert(self, path: TablePath, rows: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Upserts rows. Implements `WritableCluster.upsert`."""
        with self._opened(path) as table:
            return self._write(table, rows, "upsert", writer_id, sequence)

    def delete(self, path: TablePath, keys: Rows, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        """Deletes keys. Implements `WritableCluster.delete`."""
        with self._opened(path) as table:
            return self._write(table, keys, "delete", writer_id, sequence)

    def _write(self, table: StoredTable, rows: Rows, kind: str, writer_id: str, sequence: int) -> Sequence[AppendedRange]:
        def fit(version: StoredTable) -> tuple[WriteKey, pa.RecordBatch]:
            batch = fit_keys(rows, version.info) if kind == "delete" else fit_rows(rows, version.info)
            content = rows_bytes(batch)
            crc32 = zlib.crc32(content, zlib.crc32(kind.encode()))
            return write_key(version.info, writer_id, sequence, (kind.encode(), content), crc32), batch

        if rows.num_rows == 0:
            fit(table)
            return ()
        write = self._changes.fitted(table, writer_id, sequence, fit)
        batch, earlier = write.content, write.earlier
        if earlier is not None and (batch := _lacking(table, batch, earlier)).num_rows == 0:
            return earlier.ranges
        keys = batch.select(key_schema(table.info).names)
        last = last_of_each_key(keys)
        if len(last) < batch.num_rows:
            batch, keys = batch.take(last), keys.take(last)
        present, before = self._using(table.info, lambda state: state.look_up(keys))
        self._check_going(table, keys)
        if kind == "delete":
            changes = delete_changes(before)
        else:
            written = WrittenColumns(write.table.info.schema_id, batch.num_columns)
            stored = columns_in(written, {write.table.info.schema_id: write.table.info.schema})
            changes = upsert_changes(as_present(batch, stored, table.info.schema), present, before)
        ranges = self._changes.append_changes(table, changes, write.key)
        crash_points.reach(crash_points.KV_LOGGED)
        if ranges:
            self._apply(table.info)
        crash_points.reach(crash_points.KV_APPLIED)
        return ranges

    def _check_going(self, table: StoredTable, keys: pa.RecordBatch) -> None:
        """Raises BucketStopped if one of `keys` belongs to a bucket that is stopped at a refused record."""
        blocking = {
            bucket: record
            for bucket, records in self._refused_of(table.info.table_id).items()
            if (record := blocking_record(records)) is not None
        }
        if not blocking:
            return
        with self._metadata.read() as connection:
            ids = {partition.partition_name: partition.partition_id for partition in list_partitions(connection, table.info.table_id)}
        for part in place_rows(table.info, table.bucketing, keys, 0):
            bucket = BucketKey(None if part.partition_name is None else ids.get(part.partition_name), part.bucket_id)
            if (record := blocking.get(bucket)) is not None:
                raise stopped(table.info, bucket, part.partition_name, record)

    def skip(self, request: SkipRequest) -> SkippedRecord:
        """Skips a refused record. Implements `RecordSkipping.skip_record`."""
        with self._opened(request.path, refusal=SKIPS) as table:
            bucket = self._bucket(table.info, request)
            self._using(table.info, lambda _: None)  # applies the log, which shows where the bucket is stopped
            records = self._refused_of(table.info.table_id).get(bucket, [])
            record = _to_skip(request, records)
            if record.is_skipped:
                outcome = SkipOutcome.ALREADY_SKIPPED
            elif request.dry_run:
                outcome = SkipOutcome.WOULD_SKIP
            else:
                self._skip(table, bucket, request)
                outcome = SkipOutcome.SKIPPED
            return SkippedRecord(table.info.table_id, record.value, outcome)

    def _bucket(self, table: TableInfo, request: SkipRequest) -> BucketKey:
        """Returns the bucket that a skip names. Raises InvalidArgument, UnknownPartition."""
        if bool(table.partition_keys) != (request.partition_name is not None):
            requirement = "is partitioned: name the partition" if table.partition_keys else "has no partitions: leave the partition out"
            raise InvalidArgument(f"{table.path} {requirement}", table_id=table.table_id)
        if not 0 <= request.bucket_id < table.bucket_count:
            raise InvalidArgument(f"{table.path} has the buckets 0 to {table.bucket_count - 1}, but not {request.bucket_id}")
        if request.partition_name is None:
            return BucketKey(None, request.bucket_id)
        with self._metadata.read() as connection:
            return BucketKey(find_partition(connection, table, request.partition_name), request.bucket_id)

    def _skip(self, table: StoredTable, bucket: BucketKey, request: SkipRequest) -> None:
        """Marks the record as skipped and appends the changes that set its key to the value without it, in one transaction. The state is
        updated afterwards, as after a write.
        """
        info, now_us = table.info, to_microseconds(self._clock.now())
        changes = self._without_record(info, bucket, request.offset)
        key = write_key(info, self._ids.new_id(), 0, (), 0)

        def mark(connection: sa.Connection) -> None:
            mark_skipped(connection, info.table_id, bucket, request.offset, request.caller, request.reason, now_us)

        crash_points.reach(crash_points.KV_SKIPPING)
        self._changes.append_changes(table, changes, key, mark)
        crash_points.reach(crash_points.KV_SKIPPED)
        del self._refused[info.table_id]
        self._apply(info)

    def _without_record(self, table: TableInfo, bucket: BucketKey, offset: int) -> pa.RecordBatch:
        """Returns the changes that set the record's key to its value without the record, also for a lake that contains the record already.

        Returns no changes if the key was changed again afterwards.
        """
        bounds = self._changes.bounds(table.table_id, bucket)
        assert bounds is not None
        names = key_schema(table).names
        row: pa.RecordBatch | None = None
        segments = self._changes.segments(table.table_id, bucket, offset, bounds.log_end)
        versions = versions_of(table, segments, partial(self._changes.columns_at, table.table_id))
        for segment in segments:
            batch = read_changes(self._root, segment, versions, table.schema, bucket)
            if row is None:
                position = offset - segment.starting_offset
                row = changes_of_nothing(batch, [position]).slice(position, 1)
                batch = batch.slice(position + 1)
            if _changes_key(batch, row.select(names)):
                return delete_changes(row.slice(0, 0).select(table.schema.names))
        assert row is not None
        keys, last = row.select(names), row.select(table.schema.names)
        present, before = self._using(table, lambda state: state.look_up(keys))
        return upsert_changes(before, present, before) if len(present) else delete_changes(last)

    def _apply(self, table: TableInfo) -> None:
        """Applies published rows to the state. Never fails the write, which has succeeded: the next use applies what is missing."""
        try:
            self._using(table, lambda _: None)
        except LakewardError as error:
            _log.warning("kv_state_behind_its_log", table=str(table.path), error=str(error))

    def snapshot(self, path: TablePath) -> Mapping[BucketKey, KvSnapshot]:
        """Takes KV snapshots, and replaces those that lost files. Writers wait for one bucket at a time. Implements
        `KvSnapshotsOnDemand.take_kv_snapshots`.
        """
        with self._opened(path, refusal=SNAPSHOTS) as table:
            info, bounds = table.info, self._changes.offsets(table.info.table_id)
        with self._metadata.read() as connection:
            newest = newest_snapshots(connection, info.table_id, self._files_exist)
        for bucket, ends in bounds.items():
            if ends.log_end > (newest[bucket].log_offset if bucket in newest else 0):
                with self._opened(path, info.table_id) as table:
                    self._snapshot_bucket(table.info, bucket)
        with self._metadata.read() as connection:
            return newest_snapshots(connection, info.table_id, self._files_exist)

    def _snapshot_bucket(self, table: TableInfo, bucket: BucketKey) -> None:
        bounds = self._changes.bounds(table.table_id, bucket)
        if bounds is None:
            return  # its partition was dropped in the meantime
        self._using(table, lambda _: None)
        if blocking_record(self._refused_of(table.table_id).get(bucket, ())) is not None:
            return  # its rows do not correspond to the end of its log
        name = self._ids.new_id()
        files = self._using(table, lambda state: write_snapshot_files(self._root, table.table_id, name, table.schema, state.rows(bucket)))
        crash_points.reach(crash_points.KV_SNAPSHOT_WRITTEN)
        with self._metadata.write() as connection:
            insert_snapshot(connection, table, bucket, bounds.log_end, files, self._clock.now())
        crash_points.reach(crash_points.KV_SNAPSHOT_PUBLISHED)
        self.sweep()

    def sweep(self) -> None:
        """Ends expired leases, and removes superseded snapshots that no lease holds."""
        with self._metadata.write() as connection:
            end_expired(connection, self._lease_time.now())
            paths = delete_superseded(connection)
        try:
            remove_files(self._root, paths)
        except (OSError, DataCorrupt) as error:
            _log.warning("superseded_kv_snapshots_not_removed", error=str(error))  # the next start removes them

    @contextmanager
    def exclusive(self, table_id: int) -> Iterator[None]:
        """Prevents all other threads from writing to the table or using its state. Raises ClusterUnavailable once the cluster is closed."""
        with self._guard:
            lock = self._locks.setdefault(table_id, threading.RLock())
        with lock:
            if self._closed:
                raise ClusterUnavailable("the cluster was closed", table_id=table_id)
            yield

    def forget(self, table_id: int) -> None:
        """Removes the files and cached values of a dropped table. The caller holds the table exclusively. Raises OSError."""
        self._refused.pop(table_id, None)
        self._close(table_id)
        remove_state(state_file(self._root, table_id))

    @contextmanager
    def _opened(self, path: TablePath, table_id: int | None = None, refusal: Refusal = UPSERTS) -> Iterator[StoredTable]:
        """Yields the table as it is once it is locked exclusively. Raises UnknownTable, InvalidArgument (a log table)."""
        table_id = self._find(path, refusal).info.table_id if table_id is None else table_id
        with self.exclusive(table_id):
            table = self._find(path, refusal)
            if table.info.table_id != table_id:
                raise UnknownTable(f"the table {path} was dropped", table_id=table_id)
            yield table

    def _find(self, path: TablePath, refusal: Refusal) -> StoredTable:
        with self._metadata.read() as connection:
            table = find_table(connection, path)
        check_primary_key_table(table.info, refusal)
        return table

    def _using(self, table: TableInfo, work: Callable[[KvState], Answer]) -> Answer:
        """Runs `work` on the table's state after the whole log was applied; a damaged state is rebuilt first.

        The caller holds the table exclusively. Raises ClusterUnavailable, DataCorrupt.
        """
        try:
            return work(self._current(table))
        except duckdb.OutOfMemoryException as error:
            raise ClusterUnavailable(f"a write to {table.path} does not fit the memory: {error}", hint="Write fewer rows.") from error
        except (duckdb.Error, pa.ArrowException) as error:
            _log.warning(KV_STATE_RECREATED, table=str(table.path), error=str(error))
        try:
            self.forget(table.table_id)
            return work(self._current(table))
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            self._close(table.table_id)
            hint = "Check that the disk is not full."
            raise ClusterUnavailable(f"the KV state of {table.path} cannot be used: {error}", hint=hint) from error

    def _current(self, table: TableInfo) -> KvState:
        state = self._states.pop(table.table_id, None)
        if state is None:
            self._make_room()
            state = KvState(state_file(self._root, table.table_id), table, partial(self._changes.columns_at, table.table_id))
        self._states[table.table_id] = state
        while True:
            try:
                refused = self._refused_of(table.table_id)
                catch_up(state, table, self._root, self._changes, lambda bucket: self._snapshots(table.table_id, bucket), refused)
            except RecordRefused as refused_record:
                self._log_stop(table, refused_record)
            else:
                return state

    def _refused_of(self, table_id: int) -> dict[BucketKey, list[RefusedRecord]]:
        """Returns the table's refused records, which are read once because only this process writes them. The caller holds the table
        exclusively.
        """
        if table_id not in self._refused:
            with self._metadata.read() as connection:
                self._refused[table_id] = dict(refused_of_table(connection, table_id))
        return self._refused[table_id]

    def _log_stop(self, table: TableInfo, refused: RecordRefused) -> None:
        """Stops a bucket at the record that the state cannot accept; the other buckets continue."""
        record = RefusedRecord(refused.offset, redact(text_of(refused.row)), refused.error, is_skipped=False)
        with self._metadata.write() as connection:
            insert_refused(connection, table.table_id, refused.bucket, record, to_microseconds(self._clock.now()))
        self._refused.pop(table.table_id, None)
        place = {"table": str(table.path), "bucket": str(refused.bucket), "offset": record.offset}
        _log.error("bucket_stopped", **place, value=record.value, error=record.error)

    def _files_exist(self, snapshot: StoredSnapshot) -> bool:
        return files_exist(self._root, snapshot.files)

    def _snapshots(self, table_id: int, bucket: BucketKey) -> Sequence[StoredSnapshot]:
        with self._metadata.read() as connection:
            return snapshots_of_bucket(connection, table_id, bucket)

    def _make_room(self) -> None:
        for table_id in list(self._states)[: max(0, len(self._states) + 1 - MAX_OPEN_STATES)]:
            lock = self._locks[table_id]
            if lock.acquire(blocking=False):
                try:
                    self._close(table_id)
                finally:
                    lock.release()

    def _close(self, table_id: int) -> None:
        state = self._states.pop(table_id, None)
        if state is not None:
            state.close()


def _lacking(table: StoredTable, batch: pa.RecordBatch, earlier: EarlierWrite) -> pa.RecordBatch:
    """Returns the rows of partitions that were dropped after an earlier attempt of this write."""
    parts = [] if earlier.is_whole else place_rows(table.info, table.bucketing, batch, 0)
    rows = [part.rows for part in parts if earlier.is_missing(part.partition_name)]
    return pa.Table.from_batches(rows).combine_chunks().to_batches()[0] if rows else batch.slice(0, 0)


def _to_skip(request: SkipRequest, records: Sequence[RefusedRecord]) -> RefusedRecord:
    """Returns the record that a skip names. Raises InvalidArgument if the bucket is not stopped at it."""
    for record in records:
        if record.is_skipped and record.offset == request.offset:
            return record
    blocking = blocking_record(records)
    place = f"bucket {request.bucket_id}" + ("" if request.partition_name is None else f" of partition {request.partition_name}")
    if blocking is None:
        raise InvalidArgument(f"{place} of {request.path} is not stopped at a record: there is nothing to skip")
    if blocking.offset != request.offset:
        raise InvalidArgument(
            f"{place} of {request.path} stands at offset {blocking.offset}, not at {request.offset}",
            hint=f"Only the record at offset {blocking.offset} can be skipped.",
        )
    return blocking


def _changes_key(batch: pa.RecordBatch, key: pa.RecordBatch) -> bool:
    """Returns whether `batch` contains a change of `key`, a batch of one row, that is not a `-U`."""
    same = pc.not_equal(batch.column(batch.num_columns - 1), pa.scalar(int(ChangeType.UPDATE_BEFORE), pa.int8()))
    for name in key.schema.names:
        same = pc.and_(same, pc.equal(batch.column(name), key.column(name)[0]))
    return bool(pc.any(same).as_py())


_KIND_TYPE = CHANGE_TYPE_FIELD.type


# An upsert or a delete becomes records of the changelog, as in Fluss. An upsert of an absent key is `+I`. An upsert of a present key is
# `-U` with the former row and, at the next offset, `+U` with the new row, even if both are equal. A delete of a present key is `-D` with
# the former row; a delete of an absent key is no record. Each key occurs once in a batch: of several rows, the last one counts.
def upsert_changes(rows: pa.RecordBatch, present: npt.NDArray[np.int64], before: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the changes that make `rows` (distinct keys) the present ones, in their order, with the change type as last column.

    `before` has the existing rows; its row i has the key of row `present[i]`, and `present` is ascending.
    """
    kinds = np.full(rows.num_rows, ChangeType.INSERT, dtype=np.int8)
    kinds[present] = ChangeType.UPDATE_AFTER
    if not len(present):
        return _with_kinds(rows, kinds)
    records = np.ones(rows.num_rows, dtype=np.int64)
    records[present] = 2
    after_at = np.cumsum(records) - 1
    order = np.empty(rows.num_rows + len(present), dtype=np.int64)
    order[after_at] = np.arange(rows.num_rows)
    order[after_at[present] - 1] = rows.num_rows + np.arange(len(present))
    all_kinds = np.concatenate([kinds, np.full(len(present), ChangeType.UPDATE_BEFORE, dtype=np.int8)])
    both = pa.concat_batches([rows, before])  # type: ignore[attr-defined]  # missing in the stubs
    return _with_kinds(both.take(pa.array(order)), all_kinds[order])


def delete_changes(before: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the changes that delete the rows `before`, in their order, with the change type as last column."""
    return _with_kinds(before, np.full(before.num_rows, ChangeType.DELETE, dtype=np.int8))


def _with_kinds(rows: pa.RecordBatch, kinds: npt.NDArray[np.int8]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*rows.columns, pa.array(kinds, _KIND_TYPE)], schema=pa.schema([*rows.schema, CHANGE_TYPE_FIELD]))
