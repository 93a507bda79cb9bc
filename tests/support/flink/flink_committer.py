"""Does what the committer of Fluss's own tiering job (Flink) does in 0.9.1, a step at a time: between any two others may come.

Plan, check, prepare, append, tell. Nothing fences it; seen on a server, and read in its source.
"""

from __future__ import annotations

from support.clusters.shared_cluster import SharedMemoryCluster
from support.lakes.shared_memory_lake import SharedMemoryLake
from tiering.errors import LakewardError
from tiering.lake.base import FLUSS_COMMIT_USER
from tiering.model.tables import BucketKey


class FlinkFailed(Exception):
    """A step of its failed: the round is over."""


class FlinkCommitter:
    """One incarnation, one round at a time."""

    STEPS = ("plan", "check", "prepare", "append", "tell")

    def __init__(self, cluster: SharedMemoryCluster, lake: SharedMemoryLake) -> None:
        self._cluster, self._lake = cluster, lake
        self.reads_kv_snapshots = False
        """Whether its first round of a bucket reads the newest KV snapshot, as Flink does where there is one, and no log."""
        self.begun: frozenset[BucketKey] = frozenset()
        """Buckets of which it reads a KV snapshot."""
        self.starts: dict[BucketKey, int] = {}
        self.ends: dict[BucketKey, int] = {}
        self.planned_on: int | None = None
        self.path = ""
        self._uuid = ""
        self.snapshot_id: int | None = None

    def plan(self, stop: int | None = None) -> FlinkCommitter:
        """Takes the offsets that Fluss has and the log's ends, or `stop`."""
        recorded = self._recorded()
        self.ends = {bucket: end if stop is None else min(stop, end) for bucket, end in self._cluster.ends().items()}
        offsets = {} if recorded is None else recorded[1]
        self.starts = {bucket: offset for bucket, offset in offsets.items() if bucket in self.ends}
        for bucket, start in self.starts.items():
            self.ends[bucket] = max(self.ends[bucket], start)
        snapshots = self._cluster.kv_snapshots(self._cluster.shared_table) if self.reads_kv_snapshots and stop is None else {}
        self.begun = frozenset(snapshots.keys() - self.starts.keys())
        self.ends |= {bucket: snapshots[bucket].log_offset for bucket in self.begun}
        return self

    def check(self) -> FlinkCommitter:
        """The newest tiering snapshot of the table, rolled back or not, is to be the one that Fluss knows; else Fluss is told of it."""
        self._check_table()
        recorded = self._recorded()
        known = None if recorded is None else recorded[0]
        snapshots = self._lake.table.snapshots
        tiering = [snapshot for snapshot in snapshots.values() if snapshot.commit_user == FLUSS_COMMIT_USER]
        newest = max(tiering, key=lambda snapshot: snapshot.sequence_number, default=None)
        if self._lake.ids_come_again:  # Paimon's committer compares numbers alone
            if newest is not None and (known is None or newest.snapshot_id > known):
                self._cluster.register(newest.snapshot_id, self._lake.offsets_path[newest.snapshot_id], keep=-1)
                raise FlinkFailed(f"Fluss lacked the snapshot {newest.snapshot_id}")
            return self
        if known is not None and known not in snapshots:
            raise FlinkFailed(f"Fluss's snapshot {known} is not in the table")
        if newest is not None and (known is None or newest.sequence_number > snapshots[known].sequence_number):
            self._cluster.register(newest.snapshot_id, self._lake.offsets_path[newest.snapshot_id], keep=-1)
            raise FlinkFailed(f"Fluss lacked the snapshot {newest.snapshot_id}")
        return self

    def prepare(self) -> FlinkCommitter:
        """Prepares a commit with Flink's own ends, over those that Fluss has by now."""
        try:
            self.path = self._cluster.prepare(self.ends)
        except LakewardError as error:
            raise FlinkFailed(str(error)) from error
        return self

    def append(self) -> FlinkCommitter:
        """On whatever the head is by now."""
        self._check_table()
        self.snapshot_id = self._lake.foreign_append(self.starts, self.ends, self.path, self.begun)
        return self

    def compact(self) -> FlinkCommitter:
        """The `replace` behind it, of which Fluss is told instead."""
        assert self.snapshot_id is not None
        if self._cluster.shared_table.path not in self._lake.tables or self._lake.table.uuid != self._uuid:
            raise FlinkFailed("it committed to another lake table")
        self.snapshot_id = self._lake.foreign_compaction(self.snapshot_id)
        return self

    def tell(self) -> FlinkCommitter:
        """Last write wins; the files of all others are deleted."""
        assert self.snapshot_id is not None
        self._cluster.register(self.snapshot_id, self.path)
        return self

    def whole(self, stop: int | None = None) -> FlinkCommitter:
        """A healthy round."""
        return self.plan(stop).check().prepare().append().tell()

    def _check_table(self) -> None:
        if self._cluster.shared_table.path not in self._lake.tables:
            raise FlinkFailed("there is no lake table")
        self._uuid = self._lake.table.uuid

    def _recorded(self) -> tuple[int, dict[BucketKey, int]] | None:
        try:
            recorded = self._cluster.lake_snapshot(self._cluster.shared_table)
        except LakewardError as error:
            raise FlinkFailed(str(error)) from error
        return None if recorded is None else (recorded.lake_snapshot_id, dict(recorded.offsets))
