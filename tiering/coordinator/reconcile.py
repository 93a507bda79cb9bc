"""`CALL sys.reconcile_lake` (DESIGN 6 step 2): makes a lake table that failed the base check one to build on again.

Under the table's lock, so that no ack comes between: look, decide (`lake.reconcile`, pure), take the next epoch durably,
send one compare-and-set through the lake's committer, read the lake again, and only then tell the cluster and record it.

Dying in between is safe. Before the commit landed nothing changed but the epoch. After it, records that are ahead of the new
marker keep rounds away (RecordAheadOfLake), and the same CALL again decides the same and ends it. A late request of an
older round, or of a reconciliation whose answer was lost, meets the compare-and-set on the tag.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tiering import errors
from tiering.cluster.base import Cluster
from tiering.coordinator import core_reconcile
from tiering.coordinator.api import ReconcileLake, ReconcileResult
from tiering.coordinator.book import Book
from tiering.coordinator.core_reconcile import Reconciled, Reconciliation
from tiering.coordinator.lakes import Lakes
from tiering.coordinator.operations import Operations
from tiering.coordinator.records import CommitState, LakeCommitRecord, TableRecord, from_text, to_text
from tiering.lake.base import Committable, CommitterInitContext, Lake, LakeView
from tiering.lake.base_check import KnownLake, check_base, tiered_offsets
from tiering.lake.care import LakeCare, LakeSurvey
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.reconcile import ReconcileAction, accepted, adoptable, adopted, check_own, retiered
from tiering.model import BucketKey, RecordedLakeSnapshot, TableInfo

NOT_NEEDED, WOULD, DONE = "not_needed", "would_reconcile", "reconciled"

Ranges = dict[BucketKey, TieredRange]


@dataclass(frozen=True)
class _Looked:
    """A table as it was found. `passes`: a round may build on it as it is."""

    record: TableRecord
    info: TableInfo
    survey: LakeSurvey | None
    known: KnownLake
    passes: bool


class Reconciler:
    """`table_lock` is the one that acks take; `noticed` is told the table ids whose lake changed."""

    def __init__(
        self,
        book: Book,
        cluster: Cluster,
        lakes: Lakes,
        table_lock: Callable[[int], AbstractContextManager[object]],
        noticed: Callable[[int], None],
        operations: Operations,
    ) -> None:
        self._book = book
        self._cluster = cluster
        self._lakes = lakes
        self._table_lock = table_lock
        self._noticed = noticed
        self._operations = operations

    def reconcile(self, call: ReconcileLake) -> ReconcileResult:
        """Blocks. Raises CannotReconcile, UnknownTable, LakeUnavailable, ClusterUnavailable, CommitOutcomeUnknown, InvalidArgument."""
        if (answered := self._operations.answer(call)) is not None:
            return answered
        info = self._cluster.table(call.path)
        with self._table_lock(info.table_id):
            if (answered := self._operations.answer(call)) is not None:
                return answered  # by one who had the lock before
            result = self._left_open(call, info) or self._decide(call, info)
        if not call.dry_run:
            self._noticed(info.table_id)
        return result

    def _decide(self, call: ReconcileLake, info: TableInfo) -> ReconcileResult:
        looked = self._look(info)
        core_reconcile.check_no_open_grant(looked.record)
        action = ReconcileAction(call.action)
        if looked.passes and (action is not ReconcileAction.RETIER or looked.survey is None):
            return self._not_needed(call, looked)
        if looked.survey is None and not call.dry_run:
            self._lake(looked.record).ensure_table(info)
            looked = self._look(info)
        ranges = self._ranges(action, looked)
        marker = None if looked.survey is None else looked.survey.view.marker
        if looked.passes and marker is not None and {key: one.tiered for key, one in ranges.items()} == tiered_offsets(marker):
            return self._not_needed(call, looked)
        if call.dry_run or looked.survey is None:
            return ReconcileResult(call.path, call.action, None, None, WOULD, to_text({key: one.tiered for key, one in ranges.items()}))
        return self._carry_out(call, looked, looked.survey, ranges)

    def _look(self, info: TableInfo) -> _Looked:
        record = self._record(info)
        known = self._lakes.known(record, info)
        survey = self._care(record).survey(info.path)
        view = None if survey is None else survey.view
        try:
            check_base(view, self._lakes.with_living(known, info, view))
            passes = True
        except errors.PermanentTieringError:
            passes = False
        return _Looked(record, info, survey, known, passes)

    def _ranges(self, action: ReconcileAction, looked: _Looked) -> Ranges:
        info = looked.info
        log = self._cluster.offsets(info)
        survey = looked.survey or LakeSurvey(LakeView(info.path, "", None, None, None, {}), None)  # a dry run makes no table
        check_own(survey, looked.known)
        match action:
            case ReconcileAction.ACCEPT:
                return accepted(survey, looked.known, log)
            case ReconcileAction.RETIER:
                names = {one.partition_name: one.partition_id for one in self._cluster.partitions(info)}
                held = self._care(looked.record).held(info, survey.view, names.keys())
                by_bucket = {BucketKey(None if name is None else names[name], bucket): at for (name, bucket), at in held.items()}
                return retiered(survey, looked.known, log, by_bucket)
            case ReconcileAction.ADOPT:
                snapshot = adoptable(survey.view)
                foreign = self._care(looked.record).foreign_offsets(survey.view, snapshot.snapshot_id)
                return adopted(survey, looked.known, log, foreign)

    def _carry_out(self, call: ReconcileLake, looked: _Looked, survey: LakeSurvey, ranges: Ranges) -> ReconcileResult:
        view, info = survey.view, looked.info
        base_round = None if view.marker is None else view.marker.round_id
        offsets = {key: one.tiered for key, one in ranges.items()}
        with self._book.changing():
            ctx = self._book.context(call.caller)
            wanted = Reconciliation(call.action, ctx.new_round_id, base_round, view.tag, to_text(offsets))
            change = core_reconcile.claim(ctx, self._record(info), wanted)
            # The operation names the round before anything is sent: a repeat looks whether that one landed.
            self._book.put(change, operations=self._operations.begun(call, info.table_id, wanted.round_id))
        row = change.commits[wanted.round_id]
        marker = Marker(looked.known.cluster_id, info.table_id, view.table_uuid, wanted.round_id, row.tiering_epoch, base_round, ranges)
        self._send(looked, survey, marker)
        return self._settle(call, info, row, self._read_again(looked, row))

    def _settle(self, call: ReconcileLake, info: TableInfo, row: LakeCommitRecord, found: Reconciled) -> ReconcileResult:
        """The lake holds it: tells the cluster, then records it together with the answer."""
        recorded = RecordedLakeSnapshot(found.snapshot_id, from_text(found.offsets))
        self._cluster.rewind_lake_snapshot(info, recorded)  # before the record: until then no round passes the base check
        result = ReconcileResult(call.path, call.action, row.round_id, found.snapshot_id, DONE, found.offsets)
        with self._book.changing():
            change = core_reconcile.reconciled(self._book.context(call.caller), self._record(info), row, call.action, found)
            self._book.put(change, operations=self._operations.done(call, info.table_id, result))
        return result

    def _left_open(self, call: ReconcileLake, info: TableInfo) -> ReconcileResult | None:
        """Ends an earlier call with this key whose commit landed, but which died before it was recorded; None = do it (again)."""
        earlier = self._operations.known(call)
        if earlier is None or earlier.round_id is None:
            return None
        rows = [row for row in self._book.store.commits(info.table_id) if row.round_id == earlier.round_id]
        looked = self._look(info)
        view = None if looked.survey is None else looked.survey.view
        if not rows or view is None or view.marker is None or view.marker.round_id != earlier.round_id:
            return None  # not sent, not landed, or rounds went on from it: what is to be done is decided anew
        core_reconcile.check_no_open_grant(looked.record)
        return self._settle(call, info, rows[0], self._read_again(looked, rows[0]))

    def _send(self, looked: _Looked, survey: LakeSurvey, marker: Marker) -> None:
        """One request. What became of it is read from the lake, whatever was answered."""
        factory = self._lake(looked.record).tiering_factory(looked.info)
        committer = factory.create_committer(CommitterInitContext(looked.info, marker.round_id))
        try:
            committer.commit(Committable(marker.round_id, ()), survey.view, marker)
        except errors.CommitOutcomeUnknown:
            return
        except errors.LakewardError:
            self._give_up(looked.info, marker.round_id)  # it was not sent
            raise

    def _give_up(self, info: TableInfo, round_id: str) -> None:
        with self._book.changing():
            rows = [row for row in self._book.store.commits(info.table_id) if row.round_id == round_id]
            record = self._record(info)
            self._book.put(*(core_reconcile.abandoned(record, row, CommitState.ABORTED) for row in rows))

    def _read_again(self, looked: _Looked, row: LakeCommitRecord) -> Reconciled:
        again = self._care(looked.record).survey(looked.info.path)
        view = None if again is None else again.view
        landed = view is not None and any(one.round_id == row.round_id for one in view.snapshots.values())
        if view is None or not landed or view.tag is None or view.marker is None or view.head is None:
            with self._book.changing():
                self._book.put(core_reconcile.abandoned(self._record(looked.info), row, CommitState.UNKNOWN))
            raise errors.CommitOutcomeUnknown(
                f"the lake table {looked.info.path} was changed by somebody else meanwhile, or does not answer: it was not reconciled",
                hint="CALL sys.reconcile_lake again: it looks at the lake anew.",
                table_path=looked.info.path,
                round_id=row.round_id,
            )
        return Reconciled(view.tag, view.head, view.table_uuid, view.marker.round_id, to_text(tiered_offsets(view.marker)))

    def _not_needed(self, call: ReconcileLake, looked: _Looked) -> ReconcileResult:
        """Nothing is wrong with the lake table (any more): a failed table goes on."""
        view = None if looked.survey is None else looked.survey.view
        offsets = to_text(tiered_offsets(None if view is None else view.marker))
        result = ReconcileResult(call.path, call.action, None, None if view is None else view.tag, NOT_NEEDED, offsets)
        if not call.dry_run:
            with self._book.changing():
                change = core_reconcile.retry(self._book.context(call.caller), self._record(looked.info))
                self._book.put(change, operations=self._operations.done(call, looked.info.table_id, result))
        return result

    def _record(self, info: TableInfo) -> TableRecord:
        record = self._book.get(info.table_id)
        if record is None:
            raise errors.UnknownTable(f"{info.path} is not a lake table", hint="See sys.lake_tiering_status for the lake tables.")
        return record

    def _lake(self, record: TableRecord) -> Lake:
        return self._lakes.of(record.lake_format)

    def _care(self, record: TableRecord) -> LakeCare:
        lake = self._lake(record)
        if not isinstance(lake, LakeCare):
            raise errors.CannotReconcile(f"the lake format {record.lake_format} cannot be reconciled by this version")
        return lake
