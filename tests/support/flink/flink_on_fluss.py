"""Does what Flink's tiering job does in Fluss 0.9.1, on a real server and a real Iceberg table, a step at a time.

Assign, plan, check, prepare, append, tell, finish: between any two others may come, and two incarnations may run side by side. It
speaks to Fluss over connections of its own, as any other tiering service does; nothing fences it (docs/fluss-facts.md, H2).
"""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from support.flink.flink_committer import FlinkFailed
from support.flink.flink_files import FlinkFiles
from support.running.processes import wait_for
from support.worlds.lake_world import LakeWorld
from tiering.cluster.fluss.source import FlussSource
from tiering.cluster.fluss.wire.api import path_to_pb
from tiering.cluster.fluss.wire.client import FlussClient
from tiering.errors import LakewardError
from tiering.lake.base import FLUSS_COMMIT_USER, FLUSS_COMMIT_USER_KEY, FLUSS_OFFSETS_KEY
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TableInfo
from tiering.rpc.fluss import fluss_pb2 as pb

KEEP_ALL = -1


class FlinkOnFluss:
    """One incarnation of the job, one round of one table at a time. The lake is that of `world`."""

    def __init__(self, client: FlussClient, source: FlussSource, world: LakeWorld, table: TableInfo) -> None:
        self._client, self._source, self._world, self._table = client, source, world, table
        self.assignment: pb.PbHeartbeatReqForTable | None = None
        self.planned_on: RecordedLakeSnapshot | None = None
        self.starts: dict[BucketKey, int] = {}
        self.ends: dict[BucketKey, int] = {}
        self.path = ""
        self.snapshot_id: int | None = None

    def assign(self) -> FlinkOnFluss:
        """Asks Fluss for tables until it gets this one; others are handed back as failed."""
        handed_back: list[pb.PbHeartbeatReqForTable] = []

        def ours() -> pb.PbHeartbeatReqForTable | None:
            answer = self._client.coordinator(pb.LakeTieringHeartbeatRequest(request_table=True, failed_tables=handed_back))
            handed_back.clear()
            if not answer.HasField("tiering_table"):
                return None
            table = answer.tiering_table
            assignment = pb.PbHeartbeatReqForTable(
                table_id=table.table_id, coordinator_epoch=answer.coordinator_epoch, tiering_epoch=table.tiering_epoch
            )
            if table.table_id == self._table.table_id:
                return assignment
            handed_back.append(assignment)
            return None

        self.assignment = wait_for(f"Fluss assigns {self._table.path}", ours)
        return self

    def plan(self, stop: int | None = None) -> FlinkOnFluss:
        """Takes the offsets that Fluss has and the log's ends, or `stop`."""
        self.planned_on = self._recorded()
        self.starts = {} if self.planned_on is None else dict(self.planned_on.offsets)
        logs = self._source.offsets(self._table)
        self.ends = {bucket: log.log_end if stop is None else min(stop, log.log_end) for bucket, log in logs.items()}
        return self

    def check(self) -> FlinkOnFluss:
        """The newest tiering snapshot of the table, rolled back or not, is to be the one that Fluss knows; else Fluss is told of it."""
        recorded = self._recorded()
        snapshots = {snapshot.snapshot_id: snapshot for snapshot in self._loaded().metadata.snapshots}
        newest = max(filter(_is_tiering, snapshots.values()), key=lambda snapshot: snapshot.sequence_number or 0, default=None)
        if recorded is not None and recorded.lake_snapshot_id not in snapshots:
            raise FlinkFailed(f"Fluss's snapshot {recorded.lake_snapshot_id} is not in the table")
        if newest is not None and (recorded is None or recorded.lake_snapshot_id != newest.snapshot_id):
            self._register(newest.snapshot_id, _summary(newest)[FLUSS_OFFSETS_KEY], {}, keep=KEEP_ALL)
            raise FlinkFailed(f"Fluss lacked the snapshot {newest.snapshot_id}")
        return self

    def prepare(self) -> FlinkOnFluss:
        """Prepares a commit with Flink's own ends, over those that Fluss has by now."""
        offsets = pb.PbTableOffsets(table_id=self._table.table_id, table_path=path_to_pb(self._table.path))
        for bucket, end in self.ends.items():
            offsets.bucket_offsets.add(partition_id=bucket.partition_id, bucket_id=bucket.bucket_id, log_end_offset=end)
        try:
            [prepared] = self._client.coordinator(pb.PrepareLakeTableSnapshotRequest(bucket_offsets=[offsets])).prepare_lake_table_resp
        except LakewardError as error:
            raise FlinkFailed(str(error)) from error
        if not prepared.HasField("lake_table_offsets_path"):
            raise FlinkFailed(prepared.error_message)
        self.path = prepared.lake_table_offsets_path
        return self

    def append(self) -> FlinkOnFluss:
        """On whatever the head is by now."""
        properties = {FLUSS_COMMIT_USER_KEY: FLUSS_COMMIT_USER, FLUSS_OFFSETS_KEY: self.path}
        changes = {bucket: self._changes(bucket) for bucket in self.ends}
        files = FlinkFiles(self._table, self._loaded(), self._world.view(self._table))
        self.snapshot_id = files.commit(changes, properties)
        return self

    def tell(self) -> FlinkOnFluss:
        """Last write wins; with `keep` unset the offsets files of all other snapshots are deleted, when repeated its own (H1)."""
        assert self.snapshot_id is not None
        self._register(self.snapshot_id, self.path, self.ends)
        return self

    def tell_of(self, snapshot_id: int, path: str) -> FlinkOnFluss:
        """Registers a snapshot that Fluss lacked, as the check of another incarnation does, with the path in its summary."""
        self._register(snapshot_id, path, {}, keep=KEEP_ALL)
        return self

    def finish(self) -> FlinkOnFluss:
        self._client.coordinator(pb.LakeTieringHeartbeatRequest(finished_tables=[self._assigned()]))
        return self

    def fail(self) -> FlinkOnFluss:
        """Restarts the Flink job: Fluss gives the table to the next service that asks. The old committer may still sleep."""
        self._client.coordinator(pb.LakeTieringHeartbeatRequest(failed_tables=[self._assigned()]))
        return self

    def whole(self) -> FlinkOnFluss:
        """A healthy round."""
        return self.assign().plan().check().prepare().append().tell().finish()

    def _assigned(self) -> pb.PbHeartbeatReqForTable:
        assert self.assignment is not None
        return self.assignment

    def _changes(self, bucket: BucketKey) -> pa.Table:
        start, stop = self.starts.get(bucket, 0), self.ends[bucket]
        split = TieringLogSplit(self._table.path, bucket, self._names().get(bucket.partition_id), start, stop, stop)
        batches = self._source.reader(self._table, split).read() if stop > start else ()
        return pa.Table.from_batches(list(batches), schema=self._table.read_schema())

    def _names(self) -> dict[int | None, str]:
        """Names of the partitions."""
        partitions = self._source.partitions(self._table) if self._table.partition_keys else ()
        return {partition.partition_id: partition.partition_name for partition in partitions}

    def _register(self, snapshot_id: int, path: str, ends: dict[BucketKey, int], keep: int | None = None) -> None:
        table = self._table
        request = pb.CommitLakeTableSnapshotRequest()
        notice = request.tables_req.add(table_id=table.table_id, snapshot_id=snapshot_id, table_path=path_to_pb(table.path))
        for bucket, end in ends.items():
            notice.buckets_req.add(partition_id=bucket.partition_id, bucket_id=bucket.bucket_id, log_end_offset=end)
        request.lake_table_snapshot_metadata.add(
            table_id=table.table_id,
            snapshot_id=snapshot_id,
            tiered_bucket_offsets_file_path=path,
            readable_bucket_offsets_file_path=path if ends else None,
            earliest_snapshot_id_to_keep=keep,
        )
        for of_table in self._client.coordinator(request).table_resp:
            assert not of_table.error_code, of_table.error_message

    def _recorded(self) -> RecordedLakeSnapshot | None:
        try:
            return self._source.lake_snapshot(self._table)
        except LakewardError as error:
            raise FlinkFailed(str(error)) from error

    def _loaded(self) -> Table:
        return self._world.iceberg(self._table)


def _is_tiering(snapshot: Snapshot) -> bool:
    return _summary(snapshot).get(FLUSS_COMMIT_USER_KEY) == FLUSS_COMMIT_USER


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)
