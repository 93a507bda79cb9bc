"""The coordinator's part in a commit: plan, fence, ack (DESIGN 6.5-6.8).

An ack is taken as told only from the running round, and only if it does not go back behind what is recorded. For any
other the coordinator reads the lake itself and records what that holds. Both happen under the table's own lock, which
also makes it the only one that tells the cluster.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable

from tiering import crash_points, errors, rpc_errors
from tiering.cluster.base import Cluster
from tiering.coordinator import core_ack, core_round, wire
from tiering.coordinator.book import Book
from tiering.coordinator.core_ack import Found
from tiering.coordinator.core_round import RoundRef
from tiering.coordinator.lakes import Lakes
from tiering.coordinator.records import LakeCommitRecord, TableRecord, from_text, to_text
from tiering.lake.base_check import tiered_offsets
from tiering.model import RecordedLakeSnapshot, TableInfo
from tiering.rpc.v1 import coordinator_pb2 as pb

LEDGER_ROWS = 200
"""Rows of one table's ledger that an ack looks at: unresolved ones are settled by the next ack, so they are recent."""


class Commits:
    """Plans, grants and acks of all tables. `noticed` is told the table ids whose lake changed."""

    def __init__(self, book: Book, cluster: Cluster, lakes: Lakes, noticed: Callable[[int], None]) -> None:
        self._book = book
        self._cluster = cluster
        self._lakes = lakes
        self._noticed = noticed
        self._locks: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        self._locks_lock = threading.Lock()

    def table_lock(self, table_id: int) -> threading.Lock:
        """What acks of one table, and whatever else changes what is recorded of its lake, hold."""
        with self._locks_lock:
            return self._locks[table_id]

    def record_plan(self, request: pb.RecordPlanRequest) -> None:
        """Raises Fenced or UnknownTable for a round that does not own its table."""
        ref = wire.round_ref(request.round)
        with self._book.changing():
            self._book.put(core_round.plan(self._book.context(), self._current(ref), wire.plan(request)))

    def begin_lake_commit(self, request: pb.BeginLakeCommitRequest) -> pb.BeginLakeCommitResponse:
        """Grants the commit, or says why not."""
        ref = wire.round_ref(request.round)
        with self._book.changing():
            try:
                change = core_round.grant(self._book.context(), self._current(ref), wire.grant(request))
            except (errors.Fenced, errors.UnknownTable) as error:
                return pb.BeginLakeCommitResponse(granted=False, error=rpc_errors.to_pb(error))
            self._book.put(change)
        return pb.BeginLakeCommitResponse(granted=True)

    def report_progress(self, request: pb.ReportProgressRequest) -> None:
        """Best effort: a round that does not own its table is ignored."""
        ref = wire.round_ref(request.round)
        with self._book.changing():
            record = self._book.get(ref.table_id)
            if record is not None and core_round.is_current(record, ref):
                done = (request.splits_done, request.splits_total, request.records_done, request.records_total)
                self._book.put(core_round.progress(record, *done))
                self._book.changes.notify()

    def commit_lake_snapshot(self, request: pb.CommitLakeSnapshotRequest) -> None:
        """Takes an ack or an adoption. When it returns, coordinator and cluster have it durably; harmless to repeat.

        Raises UnknownTable, Fenced (the lake has no marker to take), the permanent errors of the base check,
        LakeUnavailable, ClusterUnavailable.
        """
        ref = wire.round_ref(request.round)
        told = Found(
            snapshot_id=request.marker.lake_snapshot_id,
            offsets=wire.offsets_text(request.marker.offsets),
            marker_round_id=request.marker_round_id or ref.round_id,
            table_uuid=request.lake_table_uuid or None,
            acker=ref.round_id,
        )
        with self.table_lock(ref.table_id):
            info = self._table(ref)
            found = self._take(ref, told)
            if found is None:
                found = self._take_read(ref, self._read(ref, info))
            crash_points.reach(crash_points.ACK_STORED)
            self._tell_cluster(info, found)
            with self._book.changing():
                record = self._live(ref)
                self._book.put(core_ack.cluster_told(self._book.context(), record, found, self._ledger(record)))
        self._noticed(ref.table_id)

    def _take(self, ref: RoundRef, told: Found) -> Found | None:
        """Records what the running round tells; None = not to be taken from this one."""
        with self._book.changing():
            record = self._live(ref)
            moved = told.table_uuid is not None and record.lake.table_uuid not in (None, told.table_uuid)
            current = core_round.is_current(record, ref)
            if not current or moved or core_ack.is_behind(told.offsets, record.lake.offsets):
                return None
            self._book.put(core_ack.record_found(self._book.context(), record, told, self._ledger(record)))
            return told

    def _take_read(self, ref: RoundRef, found: Found) -> Found:
        with self._book.changing():
            record = self._live(ref)
            self._book.put(core_ack.record_found(self._book.context(), record, found, self._ledger(record)))
            return found

    def _read(self, ref: RoundRef, info: TableInfo) -> Found:
        """What the lake holds now."""
        record = self._live(ref)
        base = self._lakes.base(record, info)
        if base.view is None or base.marker is None or base.view.tag is None:
            raise core_round.fenced_error(record, ref)
        return Found(
            snapshot_id=base.view.tag,
            offsets=to_text(tiered_offsets(base.marker)),
            marker_round_id=base.marker.round_id,
            table_uuid=base.view.table_uuid,
            acker=ref.round_id,
            head=base.view.head,
        )

    def _tell_cluster(self, info: TableInfo, found: Found) -> None:
        has = self._cluster.lake_snapshot(info)
        wanted = RecordedLakeSnapshot(found.snapshot_id, from_text(found.offsets))
        if has is not None:
            if has.lake_snapshot_id == wanted.lake_snapshot_id and dict(has.offsets) == dict(wanted.offsets):
                return
            if core_ack.is_behind(found.offsets, to_text(has.offsets)):
                raise errors.RecordAheadOfLake(
                    f"the cluster records lake snapshot {has.lake_snapshot_id} of {info.path}, which is ahead of snapshot "
                    f"{wanted.lake_snapshot_id} in the lake",
                    hint="Does another tiering service work on this table, or was the lake table restored from a copy?",
                    table_id=info.table_id,
                )
        self._cluster.record_lake_snapshot(info, wanted)

    def _table(self, ref: RoundRef) -> TableInfo:
        """The source table, if its path still has that id (DESIGN 6.1)."""
        record = self._live(ref)
        info = self._cluster.table(record.path)
        if info.table_id != record.table_id:
            raise errors.UnknownTable(f"{record.path} was dropped and made anew", table_id=ref.table_id, new_table_id=info.table_id)
        return info

    def _current(self, ref: RoundRef) -> TableRecord:
        record = self._book.get(ref.table_id)
        if record is None or not core_round.is_current(record, ref):
            raise core_round.fenced_error(record, ref)
        return record

    def _live(self, ref: RoundRef) -> TableRecord:
        record = self._book.get(ref.table_id)
        if record is None:
            raise core_round.fenced_error(None, ref)
        return record

    def _ledger(self, record: TableRecord) -> list[LakeCommitRecord]:
        return list(self._book.store.commits(record.table_id, LEDGER_ROWS))
