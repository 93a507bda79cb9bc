"""The coordinator's part in a commit: plan, fence, ack (DESIGN 6.5-6.8).

The coordinator never trusts a tierer's report about the lake: a report only makes it read the lake. An ack, a passed head and the uuid of
a lake table are recorded as the lake itself shows them, under the rules of the base check. An ack runs under the table's own lock, so that
only one ack at a time notifies the cluster. Acks run in their own pool: if a lake hangs, only acks wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from weakref import WeakValueDictionary

import structlog

from tiering import crash_points, errors
from tiering.cluster.base import ClusterOwner
from tiering.cluster.shared_lake import clean_up_after_commit, recorded_by_cluster
from tiering.coordinator.decisions import lake_acks, round_lifecycle
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.lake_acks import LakeContents, LakeSize
from tiering.coordinator.decisions.records import TableRecord, from_text, to_text
from tiering.coordinator.decisions.round_lifecycle import GrantRequest, Plan, RoundRef
from tiering.coordinator.memory.cluster_notifications import ClusterNotifications
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.coordinator.tierers.messages import (
    grant_request_from_pb,
    passed_head_from_pb,
    plan_from_pb,
    round_ref_from_pb,
    text_offsets_from_pb,
)
from tiering.coordinator.tierers.named_epochs import note_named_epochs
from tiering.errors import TableBusy
from tiering.lake.base import LakeView
from tiering.lake.foreign import ForeignWalk
from tiering.lake.rules.base_check import Base
from tiering.lake.rules.shared_base import can_notify, is_exact
from tiering.library_guards.panics import contained
from tiering.log_context import carried
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import TableInfo
from tiering.rpc.v1 import coordinator_pb2 as pb
from tiering.wire.errors import error_to_pb
from tiering.wire.model_codecs import OFFSETS

_log = structlog.get_logger(__name__)

LAKE_THREADS = 64
"""Number of concurrent acks and plans that read the lake.

Each one of a table that hangs keeps a thread until a deadline, at most one per slot of the tierers. Acks of other tables must not wait for
it.
"""

RoundKey = tuple[int, int, str]


class Commits:
    """Plans, grants and acks of all tables.

    `lake_read` is called with a table id and the lake snapshot that was read. `confirm_turn` is called with the id of a table before its
    commit is granted. It raises ClusterUnavailable if the cluster that assigned the table does not confirm that the assignment still holds.
    """

    def __init__(
        self,
        table_records: TableRecords,
        cluster: ClusterOwner,
        lakes: Lakes,
        lake_read: Callable[[int, int], None],
        confirm_turn: Callable[[int], None],
        notifications: ClusterNotifications,
    ) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._lakes = lakes
        self._lake_read = lake_read
        self._confirm_turn = confirm_turn
        self._notifications = notifications
        self.locks = TableLocks()
        self._pool = ThreadPoolExecutor(LAKE_THREADS, thread_name_prefix="acks")
        self._guard = threading.RLock()
        self._running: dict[RoundKey, Future[LakeContents]] = {}
        self._other_heads: set[int] = set()

    def table_lock(self, table_id: int) -> AbstractContextManager[None]:
        """Returns the lock for changes of one table's recorded lake, acks included. Raises TableBusy."""
        return self.locks.locked(table_id)

    def record_plan(self, request: pb.RecordPlanRequest) -> None:
        """Records the plan of a round.

        Raises Fenced or UnknownTable for a round that does not own its table, and the errors of the base check.
        """
        ref, plan = round_ref_from_pb(request.round), plan_from_pb(request)
        if self.names_another_lake_table(request):
            self._check_lake_table(ref, plan)

        def change() -> None:
            record = self._current(ref)
            self.note_passed_head(record, passed_head_from_pb(request))
            self._table_records.put(round_lifecycle.plan(self._table_records.context(), record, plan))

        self._table_records.change(change)

    def names_another_lake_table(self, request: pb.RecordPlanRequest) -> bool:
        """Returns whether the plan is for a lake table that is not recorded. Then `record_plan` reads the lake. It never waits."""
        record = self._table_records.get(request.round.table_id)
        return record is not None and request.lake_table_uuid not in ("", record.lake.table_uuid)

    def submit_plan(self, request: pb.RecordPlanRequest) -> Future[None]:
        """Runs `record_plan` in the pool for acks, where a lake that hangs delays no heartbeat."""
        return self._pool.submit(carried(contained(self.record_plan)), request)

    def begin_lake_commit(self, request: pb.BeginLakeCommitRequest) -> pb.BeginLakeCommitResponse:
        """Grants the commit, or answers why not. Asks the cluster for the properties of the lake snapshot; raises ClusterUnavailable.

        The cluster is asked before the grant is recorded, so that a granted round has all that its commit needs.
        """
        ref, offsets, grant_request = round_ref_from_pb(request.round), OFFSETS.from_pb(request.offsets), grant_request_from_pb(request)
        try:
            with self._table_records.changing():
                record = self._current(ref)
            properties = self._cluster.prepare_lake_commit(self._table(record), offsets)
            self._confirm_turn(ref.table_id)
            self._table_records.change(lambda: self._grant(ref, grant_request))
        except (errors.Fenced, errors.UnknownTable) as error:
            return pb.BeginLakeCommitResponse(granted=False, error=error_to_pb(error))
        return pb.BeginLakeCommitResponse(granted=True, snapshot_properties=properties)

    def _grant(self, ref: RoundRef, grant_request: GrantRequest) -> None:
        granted = round_lifecycle.grant(self._table_records.context(), self._current(ref), grant_request)
        self._table_records.put(granted)

    def commit_lake_snapshot(self, request: pb.CommitLakeSnapshotRequest) -> None:
        """Handles an ack or an adoption. On return, coordinator and cluster have durably recorded what the lake holds. It is idempotent.

        Raises UnknownTable, Fenced (the lake does not hold what the ack claims, or the round is unknown), the permanent errors of the base
        check, LakeUnavailable, ClusterUnavailable, TableBusy.
        """
        self.check_borne_out(request, self.acknowledge(round_ref_from_pb(request.round)))

    def submit_ack(self, request: pb.CommitLakeSnapshotRequest) -> Future[LakeContents]:
        """Runs `acknowledge` in the pool for acks. A call for a round whose ack already runs joins it, so repeats use no more threads."""
        ref = round_ref_from_pb(request.round)
        key = (ref.table_id, ref.tiering_epoch, ref.round_id)
        with self._guard:
            running = self._running.get(key)
            if running is None:
                running = self._running[key] = self._pool.submit(carried(contained(self.acknowledge)), ref)
                running.add_done_callback(lambda _: self._forget(key))
            return running

    def acknowledge(self, ref: RoundRef) -> LakeContents:
        """Reads the lake, records what it holds and notifies the cluster."""
        with self._table_records.changing():
            note_named_epochs(self._table_records, [ref])
        self._check_known(ref)
        with self.table_lock(ref.table_id):
            record = self._live(ref)
            info = self._table(record)
            base = self._lakes.base(record, info)
            contents = self._contents(ref, base)
            self._record(info, contents, base)
        self._lake_read(ref.table_id, contents.snapshot_id)
        return contents

    @staticmethod
    def check_borne_out(request: pb.CommitLakeSnapshotRequest, contents: LakeContents) -> None:
        """Raises Fenced if the ack claims more than the lake holds."""
        claimed = text_offsets_from_pb(request.marker.offsets)
        if lake_acks.is_behind(contents.offsets, claimed):
            raise errors.Fenced(
                f"the lake does not hold what round {request.round.round_id} reports: it is at round {contents.marker_round_id} "
                f"(snapshot {contents.snapshot_id})",
                hint="Nothing to do: the lake's contents are recorded, and the next round continues from there.",
                table_id=request.round.table_id,
                round_id=request.round.round_id,
            )

    def note_passed_head(self, record: TableRecord, head: int | None) -> None:
        """Notes that a tierer's base check passed this head. If the recorded head differs, `look_at_heads` reads the lake."""
        if head is not None and head != record.lake.passed_head:
            self._other_heads.add(record.table_id)

    def look_at_heads(self) -> None:
        """Records new heads of lake tables that rounds reported, if they pass the coordinator's base check, too (DESIGN 6.2)."""
        while self._other_heads:
            table_id = self._other_heads.pop()
            try:
                self._look_at_head(table_id)
            except (errors.PermanentTieringError, errors.TransientTieringError, errors.UnknownTable) as error:
                # The table's next round reports the same error, or reports the head again.
                _log.debug("the head of a lake table was not recorded", table_id=table_id, error=error.message)

    def close(self) -> None:
        """Starts no more acks. A running ack ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _look_at_head(self, table_id: int) -> None:
        with self.table_lock(table_id):
            record = self._table_records.get(table_id)
            if record is None:
                return
            base = self._lakes.base(record, self._table(record))
            if base.view is None or base.view.head is None or base.ahead:
                return  # the ack of an unrecorded marker records its head, too
            with self._table_records.changing():
                latest = self._table_records.get(table_id)
                if latest is not None:
                    self._table_records.put(lake_acks.record_passed_head(latest, base.view.head_identity))

    def _check_lake_table(self, ref: RoundRef, plan: Plan) -> None:
        """Checks that the lake has the table in the plan. A wrong recorded uuid would stop the tiering permanently. Raises Fenced."""
        with self._table_records.changing():
            record = self._current(ref)
        base = self._lakes.base(record, self._table(record))
        if base.view is None or base.view.table_uuid != plan.lake_table_uuid:
            raise errors.Fenced(
                f"round {ref.round_id} of {record.path} was planned for the lake table {plan.lake_table_uuid}, which does not exist",
                hint="Nothing to do: the next round plans for the present lake table.",
                table_id=ref.table_id,
                round_id=ref.round_id,
            )
        if base.marker is not None and base.marker.tiering_epoch > record.tiering_epoch:
            self._catch_up(ref, base.marker.tiering_epoch)

    def _catch_up(self, ref: RoundRef, marker_epoch: int) -> None:
        """Ends a round that a coordinator without its former state began. Epochs continue above the marker's. Raises Fenced."""
        with self._table_records.changing():
            record = self._current(ref)
            change = round_lifecycle.catch_up(self._table_records.context(), Change(record, durable=False), marker_epoch)
            self._table_records.put(change)
        raise round_lifecycle.fenced_error(change.record, ref)

    def _check_known(self, ref: RoundRef) -> None:
        """Raises Fenced for a round that this table never had, or that was pruned. The next round reads the lake itself."""
        record = self._live(ref)
        if not ref.round_id or round_lifecycle.is_current(record, ref):
            return
        stored_round = self._table_records.store.round(ref.round_id)
        if stored_round is None or stored_round.table_id != ref.table_id:
            raise round_lifecycle.fenced_error(record, ref)

    def _contents(self, ref: RoundRef, base: Base) -> LakeContents:
        view, marker, newest = base.view, base.marker, base.newest
        if view is None or marker is None or newest is None:
            raise errors.Fenced(
                f"the lake holds nothing that round {ref.round_id} could have committed: its table has no marker",
                hint="Nothing to do: the next round continues from what the lake holds.",
                table_id=ref.table_id,
                round_id=ref.round_id,
            )
        return LakeContents(
            snapshot_id=newest,
            offsets=to_text({bucket: tiered.tiered for bucket, tiered in base.ranges.items()}),
            marker_round_id=marker.round_id,
            table_uuid=view.table_uuid,
            acker=ref.round_id,
            head=view.head_identity,
            size=LakeSize(view.records, view.size_bytes, view.files, view.location),
            marker_snapshot_id=view.tiered,
            marker_epoch=marker.tiering_epoch,
            starts=lake_acks.nonzero_starts(base.ranges),
            skipped=lake_acks.by_text(marker.skipped),
            dead_letters=lake_acks.by_text(marker.dead_letters),
            superseded=lake_acks.by_text(marker.superseded),
            proofs=marker.proofs if view.foreign is None else {},
            traces=marker.traces if view.foreign is None else {},
            moved_back=to_text({bucket: base.ranges[bucket].tiered if bucket in base.ranges else 0 for bucket in base.moved_back}),
        )

    def _record(self, info: TableInfo, contents: LakeContents, base: Base) -> None:
        """Records the contents, then notifies the cluster. If the process dies in between, a repeated ack notifies the cluster."""
        self._table_records.change(lambda: self._record_contents(info, contents))
        crash_points.reach(crash_points.ACK_STORED)
        if contents.marker_round_id != contents.acker and self._is_lost_by_log(info, base):
            return
        if base.view is not None and base.view.foreign is not None:
            with self._notifications.turn(info.table_id) as in_turn:
                if not self._notify_shared_cluster(info, base.view, base.view.foreign, in_turn):
                    return
        else:
            self._notify_cluster(info, contents)
        self._table_records.change(lambda: self._record_cluster_ack(info, contents))
        if base.view is not None and base.view.tiered == contents.snapshot_id:
            clean_up_after_commit(self._cluster, info, base.view)

    def _is_lost_by_log(self, info: TableInfo, base: Base) -> bool:
        """Returns whether the lake has records that the cluster lost. Then the cluster is not notified of them, because its retention would
        remove other records at their offsets.

        The round that adopts this snapshot reads the log next, and fails with the exact error. A round's own commit is not checked here,
        because the round checked the log itself.
        """
        bucket = self._lakes.lost_by_log(info, base)
        if bucket is not None:
            _log.warning("lake_ahead_of_log", table=str(info.path), bucket=str(bucket))
        return bucket is not None

    def _record_contents(self, info: TableInfo, contents: LakeContents) -> None:
        record = self._registered(info.table_id)
        ctx = self._table_records.context()
        change = lake_acks.record_contents(ctx, record, contents, self._table_records.newest_commits(record.table_id))
        self._table_records.put(round_lifecycle.catch_up(ctx, change, contents.marker_epoch))

    def _record_cluster_ack(self, info: TableInfo, contents: LakeContents) -> None:
        record = self._registered(info.table_id)
        # The round's own ack, by far the most frequent one, is about the recorded grant, so no row of the ledger is read.
        row = record.commit
        if row is None or row.round_id != contents.marker_round_id:
            row = self._table_records.store_with(info.table_id).commit(contents.marker_round_id)
        self._table_records.put(lake_acks.record_cluster_ack(self._table_records.context(), record, contents, row))

    def _notify_cluster(self, info: TableInfo, contents: LakeContents) -> None:
        """Notifies the cluster, which compares before it writes. So a repeat changes nothing, and the cluster's record never moves back."""
        snapshot = RecordedLakeSnapshot(contents.snapshot_id, from_text(contents.offsets))
        try:
            self._cluster.record_lake_snapshot(info, snapshot)
        except errors.Fenced as error:
            raise errors.RecordAheadOfLake(
                f"what the cluster records of {info.path} is ahead of snapshot {snapshot.lake_snapshot_id} in the lake: {error.message}",
                hint="Check whether another tiering service works on this table, or the lake table was restored from a copy.",
                table_id=info.table_id,
            ) from error

    def _notify_shared_cluster(self, info: TableInfo, view: LakeView, walk: ForeignWalk, in_turn: bool) -> bool:
        """In our turn, notifies the cluster of the newest tiering snapshot if it is ours. Returns whether the cluster has it now.

        The cluster is never notified of another service's snapshot, because that service may be doing so, too. A round commits a newer
        snapshot instead.
        """
        # The cluster's record is also None if its file is lost; a new notification repairs that.
        cluster_record, _ = recorded_by_cluster(self._cluster, info)
        if is_exact(walk, cluster_record):
            return True
        if walk.newest is None or not in_turn or not can_notify(view, cluster_record, walk):
            return False
        self._cluster.rewind_lake_snapshot(info, RecordedLakeSnapshot(walk.newest, walk.ends))
        return True

    def _table(self, record: TableRecord) -> TableInfo:
        """Returns the source table if its path still has this id (DESIGN 6.1). Raises UnknownTable."""
        info = self._cluster.table(record.path)
        if info.table_id != record.table_id:
            raise errors.UnknownTable(f"{record.path} was dropped and recreated", table_id=record.table_id, new_table_id=info.table_id)
        return info

    def _current(self, ref: RoundRef) -> TableRecord:
        """Returns the record of the running round. Call it inside of `changing`. Raises Fenced or UnknownTable."""
        note_named_epochs(self._table_records, [ref])
        record = self._table_records.get(ref.table_id)
        if record is None or not round_lifecycle.is_current(record, ref):
            raise round_lifecycle.fenced_error(record, ref)
        return record

    def _live(self, ref: RoundRef) -> TableRecord:
        record = self._table_records.get(ref.table_id)
        if record is None:
            raise round_lifecycle.fenced_error(None, ref)
        return record

    def _registered(self, table_id: int) -> TableRecord:
        record = self._table_records.get(table_id)
        if record is None:
            raise errors.UnknownTable(
                f"no lake table has the id {table_id} any more: it was dropped, or its lake disabled", table_id=table_id
            )
        return record

    def _forget(self, key: RoundKey) -> None:
        with self._guard:
            self._running.pop(key, None)


WAIT_SECONDS = 10.0
"""Longest wait for a lock.

It is longer than a healthy lake takes, and shorter than a client waits (30 s), so the client gets the reason.
"""


class TableLocks:
    """One lock per table for all code that changes what is recorded of its lake: acks and reconciliations take turns.

    Each holder talks to the lake, which may hang. So a wait is short, and its error gives the reason. A lock exists only while it is held
    or waited for, so invented table ids leave nothing behind.
    """

    def __init__(self, wait_seconds: float = WAIT_SECONDS) -> None:
        self.wait_seconds = wait_seconds
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[int, threading.Lock] = WeakValueDictionary()

    @contextmanager
    def locked(self, table_id: int) -> Iterator[None]:
        """Runs the block with the table's lock. Raises TableBusy if another holder keeps it for too long."""
        with self._guard:
            lock = self._locks.get(table_id)
            if lock is None:
                lock = self._locks[table_id] = threading.Lock()
        if not lock.acquire(timeout=self.wait_seconds):
            raise TableBusy(
                f"another acknowledgement or reconciliation of table {table_id} has not ended within {self.wait_seconds:g} s",
                table_id=table_id,
            )
        try:
            yield
        finally:
            lock.release()

    def __len__(self) -> int:
        return len(self._locks)
