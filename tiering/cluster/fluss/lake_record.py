"""What a Fluss cluster remembers of a table's lake copy: read, prepared and committed so that no file that somebody needs is deleted.

Fluss keeps the offsets of a lake snapshot in a file that PrepareLakeTableSnapshot writes, and CommitLakeTableSnapshot registers. It deletes
files that are registered: those of other snapshots, unless it is told from which on to keep them, and with a repeated registration even
the live one (fluss-facts.md, H1). So each lake snapshot gets two files (beside-flink.md, R6): the path of one stands in its summary, for a
committer of Fluss's own that finds the snapshot before Fluss was told of it; the other is the one that is registered here.

Nothing of this is fenced in Fluss (H2): whoever calls has the table's lock, and has read the lake.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tiering import crash_points
from tiering.cluster.fluss.offsets_files.ledger import OffsetsFileLedger
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.cluster.fluss.wire.errors import LAKE_SNAPSHOT_NOT_EXIST, error_code, error_of
from tiering.cluster.lake_record_rules import check_goes_on
from tiering.errors import LakeRecordUnreadable, LakewardError, UnknownTable
from tiering.lake.base import FLUSS_COMMIT_USER, FLUSS_COMMIT_USER_KEY, FLUSS_OFFSETS_KEY
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, Offsets, TableInfo, TablePath
from tiering.rpc.fluss import fluss_pb2 as fluss

UNKNOWN_SERVER_ERROR = -1
NO_FILE_SIGNS = ("FileNotFoundException", "NoSuchFileException", "NoSuchKey")
BROKEN_FILE_SIGNS = ("UncheckedIOException", "NullPointerException", "UnsupportedFileSystemSchemeException")
"""Fluss has no code of its own for an offsets file that is gone, on a disk or in an object store, or that holds something else: only its
stack trace tells them from a cluster that is ill."""
KEEP_ALL = -1
"""`earliest_snapshot_id_to_keep` that deletes nothing; left unset it deletes what is live when a request is repeated (H1)."""


class LakeRecord:
    """The lake record of a cluster's tables. Safe to use from several threads; of one table only under its lock."""

    def __init__(self, client: FlussClient, ledger: OffsetsFileLedger | None = None) -> None:
        """`ledger`: of whoever writes; None = it only reads."""
        self._client = client
        self._ledger = ledger

    def read(self, table: TableInfo) -> RecordedLakeSnapshot | None:
        """What is registered; None = nothing yet. Raises LakeRecordUnreadable (its offsets file is gone or broken), UnknownTable."""
        try:
            answer = self._client.coordinator(fluss.GetLakeSnapshotRequest(table_path=path_to_pb(table.path)))
        except LakewardError as error:
            if error_code(error) == LAKE_SNAPSHOT_NOT_EXIST:
                return None
            if _is_about_the_file(error):
                raise LakeRecordUnreadable(
                    f"the cluster cannot read what it recorded of the lake table {table.path}: the offsets file that is registered is gone "
                    "or broken",
                    table_id=table.table_id,
                ) from error
            raise
        if answer.table_id != table.table_id:
            raise UnknownTable(f"{table.path} was dropped and made anew", table_id=table.table_id, new_table_id=answer.table_id)
        offsets = {
            bucket_of(bucket): bucket.log_offset
            for bucket in answer.bucket_snapshots
            if bucket.HasField("log_offset") and bucket.log_offset >= 0
        }
        return RecordedLakeSnapshot(answer.snapshot_id, offsets)

    def is_registered(self, table: TableInfo, snapshot_id: int) -> bool:
        """Whether Fluss has this lake snapshot, its newest or one that it keeps behind it. One that it cannot read is registered."""
        try:
            self._client.coordinator(fluss.GetLakeSnapshotRequest(table_path=path_to_pb(table.path), snapshot_id=snapshot_id))
        except LakewardError as error:
            return error_code(error) != LAKE_SNAPSHOT_NOT_EXIST
        return True

    def prepare(self, table: TableInfo, offsets: Offsets, snapshot_id: int | None = None) -> str:
        """Writes a new offsets file with exactly these offsets; its path. Nobody looks at it until it is named somewhere.

        `snapshot_id`: the lake snapshot that it is to be registered for. Enters it in the ledger; raises StoreError.
        """
        wanted = fluss.PbTableOffsets(table_id=table.table_id, table_path=path_to_pb(table.path))
        for bucket in sorted(offsets, key=BucketKey.sort_key):
            wanted.bucket_offsets.add(partition_id=bucket.partition_id, bucket_id=bucket.bucket_id, log_end_offset=offsets[bucket])
        # Whole as it is: merged with what is registered, a vanished partition would stay for ever, and a file that is gone would fail it.
        request = fluss.PrepareLakeTableSnapshotRequest(bucket_offsets=[wanted], ignore_previous_table_offsets=True)
        answer = self._client.coordinator(request)
        for of_table in answer.prepare_lake_table_resp:
            _check(of_table, table)
            if of_table.HasField("lake_table_offsets_path"):
                path = str(of_table.lake_table_offsets_path)
                if self._ledger is not None:
                    self._ledger.add(table.table_id, path, snapshot_id)
                return path
        raise error_of(-1, f"the cluster prepared no offsets file for {table.path}")

    def write(self, table: TableInfo, snapshot: RecordedLakeSnapshot, living: Collection[int] | None, *, may_go_back: bool = False) -> None:
        """Registers `snapshot`, unless it is registered already: looked at first, so that it may be repeated.

        `living` are ids of the partitions that there are; None = all that are named. Raises Fenced if an offset would go back.
        """
        try:
            recorded = self.read(table)
        except LakeRecordUnreadable:
            recorded = None  # what cannot be read is replaced: nothing else mends it (H1)
        if recorded is not None and _same(recorded, snapshot):
            return
        if recorded is not None and not may_go_back:
            check_goes_on(table, recorded, snapshot, living)
        path = self.prepare(table, snapshot.offsets, snapshot.lake_snapshot_id)
        crash_points.reach(crash_points.LAKE_RECORD_PREPARED)
        self._commit(table, snapshot, path, _keep(recorded, snapshot))
        if self._ledger is not None:
            self._ledger.forget([path])  # Fluss's own from now on

    def _commit(self, table: TableInfo, snapshot: RecordedLakeSnapshot, path: str, keep: int) -> None:
        """Both lists: the coordinator keeps the second, and tells tablet servers of the first, which then let go of remote log."""
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


def path_to_pb(path: TablePath) -> fluss.PbTablePath:
    """A table's path as Fluss has it."""
    return fluss.PbTablePath(database_name=path.database_name, table_name=path.table_name)


def bucket_of(message: Any) -> BucketKey:
    """The bucket that a message with `partition_id` and `bucket_id` is about."""
    return BucketKey(message.partition_id if message.HasField("partition_id") else None, message.bucket_id)


def summary_properties(path: str) -> Mapping[str, str]:
    """What the summary of a lake snapshot carries for Fluss, whose offsets file is at `path`."""
    return {FLUSS_COMMIT_USER_KEY: FLUSS_COMMIT_USER, FLUSS_OFFSETS_KEY: path}


def _same(recorded: RecordedLakeSnapshot, snapshot: RecordedLakeSnapshot) -> bool:
    """A bucket at offset 0 may be left out of either."""
    offsets, others = ({bucket: offset for bucket, offset in copy.offsets.items() if offset} for copy in (recorded, snapshot))
    return recorded.lake_snapshot_id == snapshot.lake_snapshot_id and offsets == others


def _keep(recorded: RecordedLakeSnapshot | None, snapshot: RecordedLakeSnapshot) -> int:
    """The registered snapshot stays readable until the next one is told; those before it would grow for ever in the cluster's ZooKeeper.

    Their files were registered here, and so stand in no snapshot's summary.
    """
    if recorded is None or recorded.lake_snapshot_id == snapshot.lake_snapshot_id:
        return KEEP_ALL
    return recorded.lake_snapshot_id


def _is_about_the_file(error: LakewardError) -> bool:
    return error_code(error) == UNKNOWN_SERVER_ERROR and any(sign in error.message for sign in NO_FILE_SIGNS + BROKEN_FILE_SIGNS)


def _check(of_table: Any, table: TableInfo) -> None:
    if of_table.HasField("error_code") and of_table.error_code:
        raise error_of(of_table.error_code, f"{table.path}: {of_table.error_message}")
