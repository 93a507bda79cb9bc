"""`CALL sys.reconcile_lake` (DESIGN 6 step 2): repairs a lake table that failed the base check, so that rounds can build on it again.

It runs under the table's lock, so that no ack comes in between. It reads, decides (`lake.rules.reconcile`, pure), and creates the lake
table if there is none. Then it takes the next epoch durably, and sends one compare-and-set through the lake's committer. It reads the lake
again, and only then notifies the cluster and records the result.

A crash at any point is safe. Before the commit landed, only the epoch has changed, and an empty lake table may exist on which no round
builds, because its uuid is not the recorded one. After the commit, rounds are refused because of records ahead of the new marker, or the
uuid (RecordAheadOfLake, LakeTableReplaced). Then the same CALL again makes the same decision and completes it. A late request of an older
round, or of a reconciliation whose answer was lost, fails its compare-and-set on uuid, head and newest tiering commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import structlog

from tiering import crash_points, errors
from tiering.cluster.shared_lake import log_starts
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions import lake_acks, reconciliation
from tiering.coordinator.decisions.next_action import CatalogNames, repair_of, repair_statement
from tiering.coordinator.decisions.reconciliation import ReconciledCommit, Reconciliation
from tiering.coordinator.decisions.records import CommitState, LakeCommitRecord, RepairKind, TableRecord, from_text, to_text
from tiering.coordinator.lake_repair.decision import Decider, Decision, Inspection, LetterFiles
from tiering.lake.base import Committable, Lake, LakeView, WriteResult
from tiering.lake.dead_letters.settled import settled_marker
from tiering.lake.log_starts import NO_STARTS
from tiering.lake.maintenance import DriftCheck, LakeSurvey, Removal, RowRemoval
from tiering.lake.marker import Marker, next_dead_letters, next_left_out, next_skipped, next_superseded
from tiering.lake.rules.base_check import check_base, tiered_offsets
from tiering.lake.rules.empty_ranges import skipped_below_head
from tiering.lake.rules.hints import is_empty, keeping_table_hint, new_table_hint, reconcile_call
from tiering.lake.rules.reconcile import (
    ReconcileAction,
    ReconcileInput,
    in_log,
    is_same,
)
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, TableInfo, TableType
from tiering.procedures.base import Mutation, ResultT
from tiering.procedures.reconcile_lake import ReconcileLake, ReconcileLakeResult

_log = structlog.get_logger(__name__)

LAKE_CATALOG = "<lake catalog>"
"""Placeholder in a hint for the lake's catalog, whose name depends on the reader."""

NOT_NEEDED, WOULD, DONE = "not_needed", "would_reconcile", "reconciled"
LOOK_AT_ROWS = frozenset({ReconcileAction.RETIER, ReconcileAction.DEDUPLICATE})
"""Actions that find problems of rows in a table whose marker passes every check."""


Answer = Callable[[LakeCommitRecord, ReconciledCommit, int | None], ResultT]
"""Makes the result of a call: from the ledger's row of its commit, the lake's newest tiering commit, and the number of removed rows."""


def action_of(text: str) -> ReconcileAction:
    """Returns the action with this name, in any case. Raises InvalidArgument."""
    try:
        return ReconcileAction(text.lower())
    except ValueError:
        actions = ", ".join(ReconcileAction)
        raise errors.InvalidArgument(
            f"{text[:60]!r} is not an action of reconcile_lake: it must be one of {actions}",
            hint="docs/lake-repair.md says which one is right.",
        ) from None


def _reconciled(
    request: ReconcileLake, row: LakeCommitRecord, in_lake: ReconciledCommit, records_removed: int | None
) -> ReconcileLakeResult:
    snapshot_id, offsets = in_lake.snapshot_id, in_lake.offsets
    return ReconcileLakeResult(
        request.path, request.action, row.round_id, snapshot_id, DONE, offsets, row.records_left_out, records_removed
    )


def repair_hint(record: TableRecord, drift: errors.SchemaDrift) -> str:
    """Returns the advice to make the lake table fit, with its statement; empty if there is no such statement."""
    repair = repair_of(drift)
    statement = None if repair is None else repair_statement(record, repair, CatalogNames(lake=LAKE_CATALOG))
    if repair is None or statement is None:
        return ""
    loses = " (which loses the values in it)" if repair.kind is RepairKind.DROP_COLUMN else ""
    return f"First {statement}{loses}, then this CALL again."


def _changes_nothing(inspection: Inspection, decision: Decision) -> bool:
    return decision.removal is None and is_same(inspection.situation, decision.ranges, inspection.ranges)


class Reconciler:
    """Decides and reconciles. The records of one table change under `parts.table_lock`; reads need no lock."""

    def __init__(self, parts: CallParts) -> None:
        self._table_records = parts.table_records
        self._cluster = parts.cluster
        self._lakes = parts.lakes
        self.decider = Decider(parts)
        self._operations = parts.operations
        self._table_lock = parts.table_lock
        self._notifications = parts.notifications
        self._lake_changed = parts.observer.observe_soon

    def reconcile(self, request: ReconcileLake) -> ReconcileLakeResult:
        """Decides and carries out, or returns the answer of an earlier call with this key."""
        if (earlier_answer := self._operations.answer(request)) is not None:
            return earlier_answer
        info = self._cluster.table(request.path)
        with self._table_lock(info.table_id):
            if (earlier_answer := self._operations.answer(request)) is not None:
                return earlier_answer  # a concurrent call with the same key had the lock before
            result = self.left_open(request, info, partial(_reconciled, request)) or self._decide(request, info)
        if not request.dry_run:
            self._lake_changed(info.table_id)
        return result

    def _decide(self, request: ReconcileLake, info: TableInfo) -> ReconcileLakeResult:
        inspection = self.inspect(info)
        reconciliation.check_no_open_grant(inspection.record)
        action = ReconcileAction(request.action)
        decision = None
        if not inspection.passes or (action in LOOK_AT_ROWS and inspection.marker is not None):
            decision = self._decision(action, inspection)
        self._check_fit(inspection)
        if decision is None or (inspection.passes and _changes_nothing(inspection, decision)):
            return self._not_needed(request, inspection)
        if request.dry_run:
            left_out, removed = decision.records_left_out, decision.records_removed
            return ReconcileLakeResult(request.path, request.action, None, None, WOULD, decision.offsets, left_out, removed)
        if inspection.survey is None:
            inspection = self._with_new_table(inspection)
        return self.carry_out(request, request.action, inspection, decision, partial(_reconciled, request))

    def drift(self, inspection: Inspection) -> errors.SchemaDrift | None:
        """Returns why the source's rows do not fit into the lake table; None if they do."""
        lake = self._lake(inspection.record)
        if isinstance(lake, DriftCheck):
            try:
                lake.check_fit(inspection.info)
            except errors.SchemaDrift as drift:
                return drift
        return None

    def _check_fit(self, inspection: Inspection) -> None:
        """Raises SchemaDrift with the statement that repairs it, because no round could continue from the reconciled lake table."""
        drift = self.drift(inspection)
        if drift is None:
            return
        hint = f"{repair_hint(inspection.record, drift)} {drift.hint}".strip()
        raise errors.SchemaDrift(f"{drift.message}; nothing was reconciled", hint=hint, **drift.ids) from drift

    def _with_new_table(self, inspection: Inspection) -> Inspection:
        """Creates the lake table after the decision, so that a refused one creates none. The decision is not valid for another table."""
        self._lake(inspection.record).ensure_table(inspection.info)
        crash_points.reach(crash_points.RECONCILE_TABLE_MADE)
        again = self.inspect(inspection.info)
        if again.view is None or again.view.snapshots:
            raise errors.CommitOutcomeUnknown(
                f"another user created or dropped the lake table {inspection.info.path} meanwhile: it was not reconciled",
                hint="CALL sys.reconcile_lake again: it reads the lake again.",
                table_path=inspection.info.path,
            )
        return again

    def inspect(self, info: TableInfo) -> Inspection:
        """Reads lake, log and records. Raises LakeUnavailable, ClusterUnavailable, SchemaDrift, ForbiddenLocation."""
        record = self._record(info)
        expected_lake = self._lakes.with_still_skipped(self._lakes.expected(record, info), info)
        survey = self.decider.maintenance(record).survey(info.path)
        view = None if survey is None else survey.view
        log = self._cluster.offsets(info)
        names: dict[int | None, str | None] = {
            partition.partition_id: partition.partition_name for partition in self._cluster.partitions(info)
        }
        if not info.partition_keys:
            names = {None: None}
        # Partitions are read last: a new one is not in `log`, and a dropped one is not in `names`.
        places = {bucket: (names[bucket.partition_id], bucket.bucket_id) for bucket in log if bucket.partition_id in names}
        log = {bucket: log[bucket] for bucket in places}
        nothing = LakeSurvey(LakeView(info.path, "", None, None, None, {}), None)
        situation = ReconcileInput(info.table_type, survey or nothing, expected_lake, log, places, record.lake.marker_tells)
        walked = self._lakes.walked(expected_lake, info, view)
        situation = self._with_replaceable(self._beside_others(situation, info, walked), info)
        try:
            base = check_base(walked, self._lakes.with_living(expected_lake, info, view))
            self._lakes.check_log(info, base)
        except errors.PermanentTieringError as problem:
            return Inspection(record, info, survey, situation, False, {}, problem, rewritten=self._rewritten(record, info, situation))
        return Inspection(record, info, survey, situation, in_log(base.ranges, log), base.ranges)

    def _rewritten(self, record: TableRecord, info: TableInfo, situation: ReconcileInput) -> dict[BucketKey, int]:
        """Returns the buckets whose log differs from the markers, even if the base check failed for another reason.

        Raises ClusterUnavailable, because no action that continues in the present log may be suggested before that is known.
        """
        cluster_id = situation.expected.cluster_id
        recorded = lake_acks.recorded_marker(record, cluster_id)
        markers = situation.survey.markers if recorded is None else (*situation.survey.markers, recorded)
        own = [marker for marker in markers if (marker.cluster_id, marker.table_id) == (cluster_id, info.table_id)]
        return self._lakes.rewritten_ends(info, own, situation.log)

    def _beside_others(self, situation: ReconcileInput, info: TableInfo, walked: LakeView | None) -> ReconcileInput:
        """Returns `situation` with the facts that only matter if another tiering service works on the table, too."""
        if situation.expected.shared is None:
            return situation
        walk = None if walked is None else walked.foreign
        snapshots = self._cluster.kv_snapshots(info)
        replaceable = {bucket for bucket, bounds in situation.log.items() if bounds.log_start == 0}
        for bucket, snapshot in snapshots.items():
            if bucket in situation.log and snapshot.log_offset >= situation.log[bucket].log_start:
                replaceable.add(bucket)
        # Read after the lake, so that no row that was read from the lake is newer than the known log.
        begins = log_starts(self._cluster, info) if info.table_type is TableType.LOG else NO_STARTS
        return replace(situation, walk=walk, replaceable=frozenset(replaceable), begins=begins)

    def _with_replaceable(self, situation: ReconcileInput, info: TableInfo) -> ReconcileInput:
        """Returns `situation` with the buckets that a KV snapshot can fill again, because their log lacks changes that the lake lacks.

        On a shared cluster, `_beside_others` has found more of them.
        """
        recorded = situation.recorded
        cut = {bucket: bounds.log_start for bucket, bounds in situation.log.items() if bounds.log_start > recorded.get(bucket, 0)}
        if info.table_type is TableType.LOG or situation.expected.shared is not None or not cut:
            return situation
        snapshots = self._cluster.kv_snapshots(info)
        replaceable = {bucket for bucket, start in cut.items() if bucket in snapshots and snapshots[bucket].log_offset >= start}
        return replace(situation, replaceable=frozenset(replaceable))

    def _decision(self, action: ReconcileAction, inspection: Inspection) -> Decision:
        """Returns the decision. Raises CannotReconcile with a hint that names the actions that are possible instead."""
        try:
            return self.decider.decide(action, inspection)
        except (errors.CannotReconcile, errors.SchemaDrift) as refusal:
            path = inspection.info.path
            acceptable = {other: self._would_be_accepted(other, inspection) for other in ReconcileAction if other is not action}
            others = [other for other, is_acceptable in acceptable.items() if is_acceptable]
            suggestion = " or ".join(reconcile_call(path, other) for other in others)
            keeping = keeping_table_hint(path)
            new_table = "" if keeping in refusal.hint else new_table_hint(path)  # no hint that may drop the only copy of rows
            suggestion = f"{suggestion} is possible; dry_run => true shows what it does." if suggestion else new_table
            if None in acceptable.values():
                suggestion = f"The lake does not answer: call again to see all accepted actions. As far as is known: {suggestion}"
            if isinstance(refusal, errors.CannotReconcile):
                suggestion = f"{refusal.hint} {suggestion}".strip()
            elif others:  # the rows have no offsets, so the number of rows that these actions leave out is unknown
                suggestion = f"{new_table_hint(path)} Or: {suggestion}"
            raise errors.CannotReconcile(refusal.message, hint=suggestion, **refusal.ids) from refusal

    def _would_be_accepted(self, action: ReconcileAction, inspection: Inspection) -> bool | None:
        """Returns whether the action is possible; None if that is unknown now."""
        if action is ReconcileAction.ACCEPT and is_empty(inspection.view):
            return False  # it would leave out everything
        if inspection.passes and action not in LOOK_AT_ROWS:
            return False  # its answer would be that it is not needed
        try:
            decision = self.decider.decide(action, inspection)
        except errors.TransientTieringError:
            return None
        except errors.LakewardError:
            return False
        return not (inspection.passes and _changes_nothing(inspection, decision))

    def carry_out(
        self,
        request: Mutation[ResultT],
        action: str,
        inspection: Inspection,
        decision: Decision,
        answer: Answer[ResultT],
        prepare: Callable[[LakeView], LakeView] | None = None,
    ) -> ResultT:
        """Commits the decision and records it, together with the answer. The caller holds the table's lock.

        `action`: its name in the ledger. `prepare` changes the lake between the claim and the commit, and returns the view on which the
        commit builds. Raises CannotReconcile, CommitOutcomeUnknown, UnknownTable, LakeUnavailable, ClusterUnavailable.
        """
        view, info = inspection.situation.survey.view, inspection.info
        base_round = None if view.marker is None else view.marker.round_id
        with self._table_records.changing():
            ctx = self._table_records.context(request.caller)
            claimed = Reconciliation(
                action,
                ctx.new_round_id if decision.written is None else decision.written.round_id,
                view.table_uuid,
                base_round,
                view.tiered,
                decision.offsets,
                decision.records_left_out,
                decision.left_out,
                *((decision.written.settled, decision.written.reason) if isinstance(decision.written, LetterFiles) else ()),
            )
            change = reconciliation.claim(ctx, self._record(info), claimed)
            # The operation names the round before anything is sent, so that a repeat can check whether it landed.
            self._table_records.put(change, operations=self._operations.started_operations(request, info.table_id, claimed.round_id))
        row = change.commits[claimed.round_id]
        marker = self._marker(inspection, decision, claimed, row.tiering_epoch)
        crash_points.reach(crash_points.RECONCILE_CLAIMED)
        view = view if prepare is None else self._prepared(inspection, marker, prepare, view)
        self._send(inspection, view, marker, decision)
        crash_points.reach(crash_points.RECONCILE_SENT)
        return self._settle(request, info, row, self._read_again(inspection, row), answer, decision.records_removed)

    def _prepared(self, inspection: Inspection, marker: Marker, prepare: Callable[[LakeView], LakeView], view: LakeView) -> LakeView:
        try:
            return prepare(view)
        except errors.LakewardError:
            self._give_up(inspection, marker.round_id)  # no commit was sent
            raise

    def _marker(self, inspection: Inspection, decision: Decision, claimed: Reconciliation, epoch: int) -> Marker:
        """Returns the marker of the new commit."""
        view, expected, ranges = inspection.situation.survey.view, inspection.situation.expected, decision.ranges
        backfills = self.decider.backfills(inspection, decision)
        if decision.written is not None and view.marker is not None:  # nothing else changes
            base, written = view.marker, decision.written
            if isinstance(written, LetterFiles):
                base = settled_marker(base, written.settled, written.results, claimed.round_id)
            return replace(base, round_id=claimed.round_id, tiering_epoch=epoch, base_round_id=base.round_id, backfills=backfills)
        tiered = {bucket: at.tiered for bucket, at in ranges.items()}
        head = decision.proved_by or inspection.situation.survey.head_marker or view.marker
        left_out = skipped_below_head(inspection.situation, head)
        skipped = next_skipped(left_out, left_out, tiered, ranges)
        letters = expected.dead_letters
        for marker in (head, view.marker):
            letters = next_dead_letters(letters, {} if marker is None else marker.dead_letters, skipped)
        superseded = [expected.superseded, *(marker.superseded for marker in (head, view.marker) if marker is not None)]
        return Marker(
            expected.cluster_id,
            inspection.info.table_id,
            view.table_uuid,
            claimed.round_id,
            epoch,
            claimed.base_round_id,
            ranges,
            proofs=self.decider.proofs(inspection, decision, claimed.round_id),
            skipped=skipped,
            dead_letters=letters,
            superseded=next_superseded(superseded, skipped, letters),
            left_out=next_left_out({} if view.marker is None else view.marker.left_out, ranges, decision.left_out),
            archives=self.decider.archives(inspection, ranges),
            backfills=backfills,
        )

    def _settle(
        self,
        request: Mutation[ResultT],
        info: TableInfo,
        row: LakeCommitRecord,
        in_lake: ReconciledCommit,
        answer: Answer[ResultT],
        records_removed: int | None = None,
    ) -> ResultT:
        """Notifies the cluster of the commit in the lake, then records it together with the answer.

        If the cluster assigns tables, and has not assigned this one to us, the other service's check or the next round does so instead.
        """
        recorded = RecordedLakeSnapshot(in_lake.snapshot_id, from_text(in_lake.offsets))
        with self._notifications.turn(info.table_id) as in_turn:
            if in_turn:
                self._cluster.rewind_lake_snapshot(info, recorded)  # before the record: until then no round passes the base check
        result = answer(row, in_lake, records_removed)
        crash_points.reach(crash_points.RECONCILE_TOLD)
        with self._table_records.changing():
            ctx = self._table_records.context(request.caller)
            change = reconciliation.reconciled(ctx, self._record(info), row, in_lake)
            self._table_records.put(change, operations=self._operations.done(request, info.table_id, result))
        return result

    def left_open(self, request: Mutation[ResultT], info: TableInfo, answer: Answer[ResultT]) -> ResultT | None:
        """Completes an earlier call with this key whose commit landed but was not recorded; None if the call has to be performed."""
        earlier = self._operations.earlier_call(request)
        if earlier is None or earlier.round_id is None:
            return None
        inspection = self.inspect(info)
        row = self._own_commit(inspection)
        if row is None or row.round_id != earlier.round_id:
            return None  # not sent, not landed, or followed by rounds: decide again
        reconciliation.check_no_open_grant(inspection.record)
        return self.settle_own(request, inspection, row, answer)

    def settle_own(self, request: Mutation[ResultT], inspection: Inspection, row: LakeCommitRecord, answer: Answer[ResultT]) -> ResultT:
        """Records a commit of `row` that is in the lake already, together with the answer."""
        in_lake = self._read_again(inspection, row)
        return self._settle(request, inspection.info, row, in_lake, answer)

    def _own_commit(self, inspection: Inspection) -> LakeCommitRecord | None:
        """Returns the ledger's row of the round that wrote the lake's marker."""
        wrote = None if inspection.marker is None else inspection.marker.round_id
        return next((row for row in self._table_records.store.commits(inspection.info.table_id) if row.round_id == wrote), None)

    def _removing(self, inspection: Inspection, base: LakeView, marker: Marker, removal: Removal | None) -> tuple[WriteResult, ...]:
        """Returns write results that remove rows, from the base's ends to the marker's ends. Raises CannotReconcile."""
        lake = self._lake(inspection.record)
        if removal is None:
            return ()
        if not isinstance(lake, RowRemoval):
            raise errors.CannotReconcile(f"rows of the lake format {inspection.record.lake_format} cannot be removed by this version")
        results = []
        for result in lake.remove_rows(inspection.info, base, marker.round_id, removal):
            after = marker.buckets.get(result.bucket)
            if after is not None:
                begin = base.ranges[result.bucket].tiered if result.bucket in base.ranges else after.start
                result = replace(result, starting_offset=begin, reached_offset=after.tiered)
            results.append(result)
        return tuple(results)

    def _send(self, inspection: Inspection, base: LakeView, marker: Marker, decision: Decision) -> None:
        """Sends one request. Its outcome is read from the lake, whatever the answer. Raises UnknownTable if the table was recreated."""
        try:
            self.current(inspection.info)
            properties = self._cluster.prepare_lake_commit(inspection.info, tiered_offsets(marker))
            # A repair removes no snapshot, because its user may still want to return to one.
            factory = self._lake(inspection.record).tiering_factory(replace(inspection.info, snapshot_retention=None))
            added = () if decision.written is None else decision.written.results
            committable = Committable(marker.round_id, (*self._removing(inspection, base, marker, decision.removal), *added))
            factory.create_committer().commit(committable, base, marker, properties)
        except errors.CommitOutcomeUnknown:
            return
        except errors.LakewardError:
            self._give_up(inspection, marker.round_id, decision)  # the request was not sent
            raise

    def current(self, info: TableInfo) -> TableInfo:
        """Returns the table as it is now. Raises UnknownTable if it was recreated."""
        current = self._cluster.table(info.path)
        if current.table_id != info.table_id:
            raise errors.UnknownTable(f"{info.path} was dropped and recreated", table_id=info.table_id, new_table_id=current.table_id)
        return current

    def _give_up(self, inspection: Inspection, round_id: str, decision: Decision | None = None) -> None:
        """Records that no commit was sent."""
        info, written = inspection.info, None if decision is None else decision.written
        with self._table_records.changing():
            rows = [row for row in self._table_records.store.commits(info.table_id) if row.round_id == round_id]
            record = self._record(info)
            changes = [reconciliation.abandoned(record, row, CommitState.ABORTED) for row in rows]
            if isinstance(written, LetterFiles):
                changes = [reconciliation.with_letters_back(change, inspection.record, written.settled) for change in changes]
            self._table_records.put(*changes)

    def _read_again(self, inspection: Inspection, row: LakeCommitRecord) -> ReconciledCommit:
        again = self.decider.maintenance(inspection.record).survey(inspection.info.path)
        view = None if again is None else again.view
        landed = view is not None and any(snapshot.round_id == row.round_id for snapshot in view.snapshots.values())
        if view is None or not landed or view.tiered is None or view.marker is None or view.head is None:
            with self._table_records.changing():
                self._table_records.put(reconciliation.abandoned(self._record(inspection.info), row, CommitState.UNKNOWN))
            procedure = reconciliation.procedure_of(row.reconcile_action or "")
            raise errors.CommitOutcomeUnknown(
                f"the lake table {inspection.info.path} was changed by another user meanwhile, or does not answer: it was not changed",
                hint=f"CALL sys.{procedure} again: it reads the lake again.",
                table_path=inspection.info.path,
                round_id=row.round_id,
            )
        ends, starts = to_text(tiered_offsets(view.marker)), lake_acks.nonzero_starts(view.marker.buckets)
        # Only our own commit counts as passed. The next base check judges later commits and a rollback.
        head, marker = view.identity_of(view.tiered), view.marker
        living = {bucket.partition_id for bucket in inspection.situation.places}
        skipped = lake_acks.by_text(marker.skipped), lake_acks.by_text(marker.dead_letters), lake_acks.by_text(marker.superseded)
        return ReconciledCommit(
            *(view.tiered, head, view.table_uuid, marker.round_id, ends, starts, marker.proofs, marker.traces, living), *skipped
        )

    def _not_needed(self, request: ReconcileLake, inspection: Inspection) -> ReconcileLakeResult:
        """Returns the answer for an intact lake table, and retries a failed table.

        If the latest commit was a reconciliation whose caller may never have got its answer, the answer repeats what that left out.
        """
        view, row = inspection.view, self._own_commit(inspection)
        offsets = to_text(tiered_offsets(inspection.marker))
        left_out = 0 if row is None or row.reconcile_action is None else row.records_left_out
        tiered = None if view is None else view.tiered
        result = ReconcileLakeResult(request.path, request.action, None, tiered, NOT_NEEDED, offsets, left_out)
        return result if request.dry_run else self.keep_answer(request, inspection.info, result)

    def keep_answer(self, request: Mutation[ResultT], info: TableInfo, result: ResultT) -> ResultT:
        """Records the answer of a call that changed nothing, and retries a failed table."""
        with self._table_records.changing():
            change = reconciliation.retry(self._table_records.context(request.caller), self._record(info))
            self._table_records.put(change, operations=self._operations.done(request, info.table_id, result))
        return result

    def _record(self, info: TableInfo) -> TableRecord:
        record = self._table_records.get(info.table_id)
        if record is None:
            raise errors.UnknownTable(f"{info.path} is not a lake table", hint="See sys.lake_tiering_status for the lake tables.")
        return record

    def _lake(self, record: TableRecord) -> Lake:
        return self._lakes.of(record.lake_format)
