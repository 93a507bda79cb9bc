"""The record that a Fluss cluster keeps of a table's lake copy. It is read, prepared and committed so that no needed file is deleted.

Fluss keeps the offsets of a lake snapshot in a file that PrepareLakeTableSnapshot writes, and CommitLakeTableSnapshot registers. It deletes
registered files: those of other snapshots, unless the request names the earliest one to keep, and with a repeated registration even the
live file (fluss-facts.md, H1). So each lake snapshot gets two files (beside-flink.md, R6). The path of one is in its summary, for a
committer of Fluss's own that finds the snapshot before Fluss was informed of it; the other one is registered here.

Fluss fences none of these calls (H2): the caller must hold the table's lock, and must have read the lake.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tiering import crash_points
from tiering.cluster.base import check_goes_on
from tiering.cluster.fluss.offsets_files import OffsetsFileLedger
from tiering.cluster.fluss.wire.api import bucket_of, path_to_pb
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import LAKE_SNAPSHOT_NOT_EXIST, UNKNOWN_SERVER_ERROR, error_code, error_of
from tiering.errors import LakeRecordUnreadable, LakewardError, UnknownTable
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, Offsets, TableInfo
from tiering.rpc.fluss import fluss_pb2 as fluss

NO_FILE_SIGNS = ("FileNotFoundException", "NoSuchFileException", "NoSuchKey")
BROKEN_FILE_SIGNS = ("UncheckedIOException", "NullPointerException", "UnsupportedFileSystemSchemeException")
"""Fluss has no error code for an offsets file that does not exist, on a disk or in an object store, or that has other content. Only the
stack trace in its answer distinguishes these from a failure of the cluster.
"""
KEEP_ALL = -1
"""Value of `earliest_snapshot_id_to_keep` that deletes nothing; if it is unset, a repeated request deletes live files (H1)."""


class LakeRecord:
    """The lake records of a cluster's tables. Safe to use from several threads; for one table only under its lock."""

    def __init__(self, client: FlussClient, ledger: OffsetsFileLedger | None = None) -> None:
        """`ledger` is needed by a writer; None = the record is only read."""
        self._client = client
        self._ledger = ledger

    def read(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """Returns the registered lake snapshot; None = nothing yet. Raises LakeRecordUnreadable (its offsets file is missing or broken),
        UnknownTable.
        """
        try:
            answer = self._client.coordinator(fluss.GetLakeSnapshotRequest(table_path=path_to_pb(table.path)))
        except LakewardError as error:
            if error_code(error) == LAKE_SNAPSHOT_NOT_EXIST:
                return None
            if _is_about_the_file(error):
                raise LakeRecordUnreadable(
                    f"the cluster cannot read its record of the lake table {table.path}: the registered offsets file is missing or broken",
                    table_id=table.table_id,
                ) from error
            raise
        if answer.table_id != table.table_id:
            raise UnknownTable(f"{table.path} was dropped and recreated", table_id=table.table_id, new_table_id=answer.table_id)
        offsets = {
            bucket_of(bucket): bucket.log_offset
            for bucket in answer.bucket_snapshots
            if bucket.HasField("log_offset") and bucket.log_offset >= 0
        }
        return RecordedLakeSnapshot(answer.snapshot_id, offsets)

    def is_registered(self, table: TableInfo, snapshot_id: int) -> bool:
        """Returns whether Fluss has registered this lake snapshot, as its newest or as a kept older one. True also for one that it cannot
        read.
        """
        try:
            self._client.coordinator(fluss.GetLakeSnapshotRequest(table_path=path_to_pb(table.path), snapshot_id=snapshot_id))
        except LakewardError as error:
            return error_code(error) != LAKE_SNAPSHOT_NOT_EXIST
        return True

    def prepare(self, table: TableInfo, offsets: Offsets, snapshot_id: int | None = None) -> str:
        """Writes a new offsets file with exactly these offsets; returns its path. The file is unused until it is named somewhere.

        `snapshot_id`: the lake snapshot for which it will be registered. Adds the file to the ledger; raises StoreError.
        """
        table_offsets = fluss.PbTableOffsets(table_id=table.table_id, table_path=path_to_pb(table.path))
        for bucket in sorted(offsets, key=BucketKey.sort_key):
            table_offsets.bucket_offsets.add(partition_id=bucket.partition_id, bucket_id=bucket.bucket_id, log_end_offset=offsets[bucket])
        # The file is complete: merged with the registered one, it would keep vanished partitions for ever, and the call would fail if the
        # registered file is missing.
        request = fluss.PrepareLakeTableSnapshotRequest(bucket_offsets=[table_offsets], ignore_previous_table_offsets=True)
        answer = self._client.coordinator(request)
        for of_table in answer.prepare_lake_table_resp:
            _check(of_table, table)
            if of_table.HasField("lake_table_offsets_path"):
                path = str(of_table.lake_table_offsets_path)
                if self._ledger is not None:
                    self._ledger.add(table.table_id, path, snapshot_id)
                return path
        raise error_of(UNKNOWN_SERVER_ERROR, f"the cluster prepared no offsets file for {table.path}")

    def write(self, table: TableInfo, snapshot: RecordedLakeSnapshot, living: Collection[int] | None, *, may_go_back: bool = False) -> None:
        """Registers `snapshot`, unless it is registered already; the record is read first, so the call is idempotent.

        `living` are ids of the existing partitions; None = all named ones. Raises Fenced if an offset would move back.
        """
        try:
            recorded = self.read(table)
        except LakeRecordUnreadable:
            recorded = None  # an unreadable record is replaced, because nothing else repairs it (H1)
        if recorded is not None and _are_equal(recorded, snapshot):
            return
        if recorded is not None and not may_go_back:
            check_goes_on(table, recorded, snapshot, living)
        path = self.prepare(table, snapshot.offsets, snapshot.lake_snapshot_id)
        crash_points.reach(crash_points.LAKE_RECORD_PREPARED)
        self._commit(table, snapshot, path, _earliest_to_keep(recorded, snapshot))
        if self._ledger is not None:
            self._ledger.forget([path])  # the file belongs to Fluss from now on

    def _commit(self, table: TableInfo, snapshot: RecordedLakeSnapshot, path: str, keep: int) -> None:
        """Registers the snapshot. Both lists are needed: the coordinator stores the second, and sends the first to tablet servers, which
        then delete their remote log.
        """
        request = fluss.CommitLakeTableSnapshotRequest()
        notice = request.tables_req.add(table_id=table.table_id, snapshot_id=snapshot.lake_snapshot_id, table_path=path_to_pb(table.path))
        for bucket in sorted(snapshot.offsets, key=BucketKey.sort_key):
            notice.buckets_req.add(partition_id=bucket.partition_id, bucket_id=bucket.bucket_id, log_end_offset=snapshot.offsets[bucket])
        request.lake_table_snapshot_metadata.add(
            table_id=table.table_id,
            snapshot_id=snapshot.lake_snapshot_id,
            tiered_bucket_offsets_file_path=path,
            readable_bucket_offsets_file_path=path,
            earliest_snapshot_id_to_keep=keep,
        )
        for of_table in self._client.coordinator(request).table_resp:
            _check(of_table, table)


def _are_equal(recorded: RecordedLakeSnapshot, snapshot: RecordedLakeSnapshot) -> bool:
    """Returns whether both records are equal. A bucket at offset 0 may be missing in either."""
    offsets, others = ({bucket: offset for bucket, offset in copy.offsets.items() if offset} for copy in (recorded, snapshot))
    return recorded.lake_snapshot_id == snapshot.lake_snapshot_id and offsets == others


def _earliest_to_keep(recorded: RecordedLakeSnapshot | None, snapshot: RecordedLakeSnapshot) -> int:
    """Returns the earliest snapshot to keep. The registered snapshot stays readable until the next one is announced; older ones would
    accumulate in the cluster's ZooKeeper.

    The files of the older ones were registered here, and so are in no snapshot's summary.
    """
    if recorded is None or recorded.lake_snapshot_id == snapshot.lake_snapshot_id:
        return KEEP_ALL
    return recorded.lake_snapshot_id


def _is_about_the_file(error: LakewardError) -> bool:
    return error_code(error) == UNKNOWN_SERVER_ERROR and any(sign in error.message for sign in NO_FILE_SIGNS + BROKEN_FILE_SIGNS)


def _check(of_table: Any, table: TableInfo) -> None:
    if of_table.HasField("error_code") and of_table.error_code:
        raise error_of(of_table.error_code, f"{table.path}: {of_table.error_message}")
