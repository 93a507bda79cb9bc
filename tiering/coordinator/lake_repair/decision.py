"""Decides what a reconciliation of a lake table would do: where tiering continues, and what is left out. It changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog

from tiering import errors
from tiering.cluster.shared_lake import empty_in_log, log_rows, recorded_by_cluster
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions import lake_acks
from tiering.coordinator.decisions.records import TableRecord, to_text
from tiering.lake.base import LakeView, WriteResult
from tiering.lake.dead_letters.settled import SettledLetters
from tiering.lake.foreign import CleanRows, LogRows
from tiering.lake.maintenance import ForeignOffsets, LakeMaintenance, LakeSurvey, LiveRowSums, PartitionRows, Removal
from tiering.lake.marker import LeftOut, Marker, TieredRange
from tiering.lake.proof.backfilled_rows import Backfill
from tiering.lake.proof.bucket_proof import BucketProof
from tiering.lake.rules.archived_rows import archived_rows, kept_archives
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.empty_ranges import EmptyRanges, left_out, marked_ranges, skipped_records, with_empty_ranges, with_marked_ranges
from tiering.lake.rules.proved_rows import proved_rows, proving_markers, rebuilt_proofs
from tiering.lake.rules.reconcile import (
    Ranges,
    ReconcileAction,
    ReconcileInput,
    accepted,
    adoptable,
    adopted,
    behind_rows,
    check_own,
    check_unproved,
    emptied,
    kept_proofs,
    newest_foreign,
    records_left_out,
    retiered,
    unproved_problem,
    walked_ranges,
    with_unrecorded_buckets,
)
from tiering.lake.rules.row_repair import check_not_doubled, check_owners, deduplicated, retiered_rows
from tiering.model.tables import BucketKey, TableInfo, TableType
from tiering.planning.check_log import log_rewritten

_log = structlog.get_logger(__name__)

REMEMBERED_TABLES = 1_000
"""Upper bound of tables whose rows were read and are cached, some 100 bytes per bucket."""


@dataclass(frozen=True)
class Inspection:
    """The state of a table. `passes`: a round may build on its lake table, and the log has the records that follow.

    `problem` is the error of the base check, if there is one.
    """

    record: TableRecord
    info: TableInfo
    survey: LakeSurvey | None
    situation: ReconcileInput
    passes: bool
    ranges: Mapping[BucketKey, TieredRange]
    problem: errors.PermanentTieringError | None = None
    lake_rows: RowOffsets | None = None
    """The offsets of the rows of a log table, if they were read (`Decider.with_rows`)."""
    proved_by: Marker | None = None
    """The marker that proves the rows, if the rows themselves have no offsets."""
    rewritten: Mapping[BucketKey, int] = field(default_factory=dict)
    """Buckets whose log has another record than the tiered one before this offset, independently of other problems."""

    @property
    def view(self) -> LakeView | None:
        return None if self.survey is None else self.survey.view

    @property
    def marker(self) -> Marker | None:
        return None if self.survey is None else self.survey.view.marker

    def check_sound(self, consequence: str, repeat: str) -> None:
        """Raises CannotReconcile if no round could build on the lake table. `repeat` says how to make the call again."""
        if self.problem is not None:
            path = self.info.path
            raise errors.CannotReconcile(
                f"no round can build on the lake table {path}, so {consequence}: {self.problem.message}",
                hint=f"Repair it first, then {repeat}. {self.problem.hint or ''}".strip(),
                table_path=path,
            )


@dataclass(frozen=True)
class BackfillFiles:
    """The files of a backfill, which carry its round id, before their commit. `results` say that no offset moves."""

    backfill: Backfill
    results: tuple[WriteResult, ...]

    @property
    def round_id(self) -> str:
        return self.backfill.round_id


@dataclass(frozen=True)
class LetterFiles:
    """The files of replayed dead letters before their commit, and what becomes of the dead letters. `results` say that no offset moves."""

    round_id: str
    settled: SettledLetters
    results: tuple[WriteResult, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class Decision:
    """Where tiering should continue, and how many records that leaves out (None if unknown)."""

    ranges: Ranges
    records_left_out: int | None
    removal: Removal | None = None
    lake_rows: RowOffsets | None = None
    """The rows of a log table behind which tiering continues. Each offset between them is known to have no row."""
    proved_by: Marker | None = None
    """The marker that proves the rows (`Inspection.proved_by`)."""
    left_out: LeftOut = field(default_factory=dict)
    """The records that the log of a log table no longer has, and that the lake never gets."""
    adopted: Mapping[BucketKey, BucketProof] | None = None
    """For `adopt_table`, the proofs of buckets whose rows are those of the log, without a chain. None for other calls."""
    written: BackfillFiles | LetterFiles | None = None
    """The files that the commit adds, for `backfill_table`, `replay_dead_letters` and `discard_dead_letters`."""

    @property
    def offsets(self) -> dict[str, int]:
        return to_text({bucket: tiered.tiered for bucket, tiered in self.ranges.items()})

    @property
    def records_removed(self) -> int:
        return 0 if self.removal is None else self.removal.rows


class Decider:
    """Reads rows and logs as far as a decision needs them."""

    def __init__(self, parts: CallParts) -> None:
        self._cluster = parts.cluster
        self._lakes = parts.lakes
        self._cached_sums: dict[int, tuple[object, Sequence[CleanRows] | None]] = {}
        """By table id, the rows at a head, and the identity of that head."""

    def decide(self, action: ReconcileAction, inspection: Inspection) -> Decision:
        """Returns the decision for an action. Raises CannotReconcile, SchemaDrift, LakeUnavailable, DataCorrupt."""
        rewritten = inspection.problem if isinstance(inspection.problem, errors.LogRewritten) else None
        if rewritten is not None:
            _check_may_go_on_behind(action, inspection, rewritten)
        decision = self._decided(action, inspection)
        if rewritten is None and (rewritten := _goes_on_behind(inspection, decision)) is not None:
            _check_may_go_on_behind(action, inspection, rewritten)
        if rewritten is not None:
            return replace(decision, records_left_out=None)  # the number of records that were written over the lost ones is unknown
        lost = self._lost_archive(inspection) if action is ReconcileAction.RETIER else 0
        if lost and decision.records_left_out is not None:
            return replace(decision, records_left_out=decision.records_left_out + lost)
        return decision

    def _decided(self, action: ReconcileAction, inspection: Inspection) -> Decision:
        check_own(inspection.situation.survey, inspection.situation.expected)
        check_unproved(inspection.situation, action)
        if action is ReconcileAction.DEDUPLICATE:
            return self._deduplicated(inspection)
        if action in (ReconcileAction.ACCEPT, ReconcileAction.RETIER):
            inspection = self.with_rows(inspection)
        return replace(self._decided_by_rows(action, inspection), proved_by=inspection.proved_by)

    def _decided_by_rows(self, action: ReconcileAction, inspection: Inspection) -> Decision:
        situation = inspection.situation
        is_log, is_shared = situation.table_type is TableType.LOG, situation.expected.shared is not None
        tells_offsets = unproved_problem(situation) is None
        rows = self._own_rows(inspection) if is_shared and is_log and tells_offsets and action is not ReconcileAction.RETIER else None
        if rows is not None:
            check_not_doubled(situation, rows)
        match action:
            case ReconcileAction.ACCEPT:
                ranges = accepted(situation, rows)
                if is_log and not is_shared and (lake_rows := self._rows_that_tell(inspection)) is not None:
                    ranges = behind_rows(situation, ranges, lake_rows)
                elif not is_log and not is_shared:
                    ranges = with_unrecorded_buckets(situation, ranges, self._lake_rows_if_readable(inspection))
            case ReconcileAction.RETIER if is_shared and is_log:
                return self._retiered_rows(inspection)
            case ReconcileAction.RETIER:
                lake_rows = self._lake_rows(inspection)
                if is_log:
                    return self._retiered_log(inspection, lake_rows)
                ranges = retiered(situation, lake_rows)
                empty = emptied(situation, lake_rows, ranges)
                if not is_shared:  # a round replaces the rows of a bucket without partition in one commit
                    empty = frozenset(bucket for bucket in empty if bucket.partition_id is not None)
                removal = Removal({bucket: situation.places[bucket] for bucket in empty}, emptied=empty) if empty else None
                return Decision(ranges, records_left_out(situation, action, ranges, lake_rows), removal)
            case ReconcileAction.ADOPT:
                snapshot = adoptable(situation.survey.view)
                ranges = adopted(situation, self._foreign_offsets(inspection, snapshot.snapshot_id))
        readable = self._lake_rows_if_readable(inspection)
        cut = left_out(situation, ranges, readable) if action is ReconcileAction.ACCEPT else {}
        return Decision(ranges, records_left_out(situation, action, ranges, readable), left_out=cut)

    def _retiered_log(self, inspection: Inspection, lake_rows: RowOffsets) -> Decision:
        situation = inspection.situation
        whole = with_empty_ranges(situation, lake_rows, self._empty_ranges(inspection))
        ranges = retiered(situation, lake_rows, whole)
        left_out = records_left_out(situation, ReconcileAction.RETIER, ranges, with_marked_ranges(situation, whole))
        return Decision(ranges, left_out, lake_rows=lake_rows)

    def _empty_ranges(self, inspection: Inspection) -> EmptyRanges:
        situation = inspection.situation
        in_log = empty_in_log(self._cluster, inspection.info, skipped_records(situation))
        return EmptyRanges(situation.log, marked_ranges(situation), in_log)

    def _rows_in_log(self, inspection: Inspection) -> LogRows:
        left_out = skipped_records(inspection.situation)
        rows = log_rows(self._cluster, inspection.info, lambda: left_out)
        return self._empty_ranges(inspection).log_rows(rows)

    def _foreign_offsets(self, inspection: Inspection, snapshot_id: int) -> ForeignOffsets:
        """Returns how far the other service wrote with a snapshot: from the cluster's record, if that is about this snapshot.

        Otherwise the snapshot's own file has it. That file belongs to the cluster, and is usually outside of where lake files may be.
        """
        info = inspection.info
        recorded, _ = recorded_by_cluster(self._cluster, info)
        view = inspection.situation.survey.view
        ids_come_again = view.identity_of(snapshot_id) != snapshot_id
        if recorded is None or recorded.lake_snapshot_id != snapshot_id or ids_come_again:
            return self.maintenance(inspection.record).foreign_offsets(view, snapshot_id)
        offsets = {(bucket.partition_id, bucket.bucket_id): offset for bucket, offset in recorded.offsets.items()}
        return ForeignOffsets(info.table_id, offsets)

    def _deduplicated(self, inspection: Inspection) -> Decision:
        situation, info = inspection.situation, inspection.info
        view, problem = situation.survey.view, None if situation.walk is None else situation.walk.problem
        if situation.expected.shared is None:
            raise errors.CannotReconcile(f"no other tiering service works on the cluster of {info.path}, so none can have doubled rows")
        if situation.table_type is TableType.PRIMARY_KEY:
            raise errors.CannotReconcile(f"the rounds of the primary-key table {info.path} replace doubled keys themselves")
        if isinstance(problem, errors.LakeRolledBack | errors.RecordAheadOfLake):
            raise errors.CannotReconcile(problem.message)
        stated: dict[BucketKey, int] = {}
        if (foreign := newest_foreign(view)) is not None:
            with suppress(errors.LakewardError):  # the files of all but the newest are deleted
                stated_by_it = self.maintenance(inspection.record).foreign_offsets(view, foreign.snapshot_id)
                stated = {BucketKey(*place): offset for place, offset in stated_by_it.offsets.items()}
        repair = deduplicated(situation, self._own_rows(inspection), stated, self._rows_in_log(inspection))
        return Decision(repair.ranges, repair.left_out, repair.removal)

    def _retiered_rows(self, inspection: Inspection) -> Decision:
        situation = inspection.situation
        try:
            lake_rows = self._own_rows(inspection)
        except errors.SchemaDrift:  # the rows have no offsets
            if (ranges := walked_ranges(situation)) is None:
                raise
            return Decision(ranges, 0)
        repair = retiered_rows(situation, lake_rows, self._rows_in_log(inspection))
        return Decision(repair.ranges, repair.left_out, repair.removal)

    def with_rows(self, inspection: Inspection) -> Inspection:
        """Returns `inspection` with the offsets of its rows, for a clean log table that only Lakeward tiers.

        Its rows have no offsets, so a marker has to prove them (`lake.rules.proved_rows`): one in the lake table, or the newest recorded
        one. The head then builds on that marker. Otherwise `inspection` is returned unchanged.

        Raises LakeUnavailable, DataCorrupt.
        """
        situation, survey = inspection.situation, inspection.survey
        is_ours = situation.table_type is TableType.LOG and situation.expected.shared is None
        if survey is None or inspection.lake_rows is not None or not is_ours:
            return inspection
        lake = self._lakes.of(inspection.record.lake_format)
        markers = proving_markers(survey, situation.places, lake_acks.recorded_marker(inspection.record, situation.expected.cluster_id))
        if not markers or not isinstance(lake, LiveRowSums):
            return inspection
        try:
            return replace(inspection, lake_rows=self._lake_rows(inspection))
        except errors.SchemaDrift:  # another writer added files
            row_sums = self._live_row_sums(lake, inspection, survey.view)
        proved = None if row_sums is None else proved_rows(markers, situation.places, row_sums)
        if proved is None:
            return inspection
        survey = replace(survey, head_marker=proved.marker, newest_marker=survey.newest_marker or proved.marker)
        situation = replace(situation, survey=survey)
        return replace(inspection, survey=survey, situation=situation, lake_rows=proved.lake_rows, proved_by=proved.marker)

    def _live_row_sums(self, lake: LiveRowSums, inspection: Inspection, view: LakeView) -> Sequence[CleanRows] | None:
        """Returns the rows in a table; None if one of its files cannot be read. They are read once per head."""
        partitions = partitions_of(inspection)
        key = (view.table_uuid, view.head_identity, frozenset(partitions.items()))
        cached = self._cached_sums.get(inspection.info.table_id)
        if cached is not None and cached[0] == key:
            return cached[1]
        row_sums: Sequence[CleanRows] | None = None
        with suppress(errors.SchemaDrift):
            row_sums = lake.live_row_sums(inspection.info, view, partitions)
        while len(self._cached_sums) >= REMEMBERED_TABLES:
            self._cached_sums.pop(next(iter(self._cached_sums)), None)
        self._cached_sums[inspection.info.table_id] = key, row_sums
        return row_sums

    def _lake_rows(self, inspection: Inspection) -> RowOffsets:
        if inspection.survey is None:
            return RowOffsets()
        if inspection.lake_rows is not None:
            return inspection.lake_rows
        situation, view, partitions = inspection.situation, inspection.survey.view, partitions_of(inspection)
        maintenance = self.maintenance(inspection.record)
        if not situation.begins:
            return maintenance.row_offsets(inspection.info, view, partitions)
        return maintenance.row_offsets(inspection.info, view, partitions, situation.begins)

    def _own_rows(self, inspection: Inspection) -> RowOffsets:
        """Returns the rows of living partitions. Raises CannotReconcile for rows that may be a former partition's."""
        lake_rows = self._lake_rows(inspection)
        check_owners(inspection.situation, lake_rows)
        return lake_rows

    def _lake_rows_if_readable(self, inspection: Inspection) -> RowOffsets | None:
        """Returns the rows, with the offsets known to have no row. None if the action need not count them; see `_rows_that_tell`."""
        try:
            lake_rows = self._rows_that_tell(inspection)
        except errors.DataCorrupt as error:
            _log.warning("the rows of a lake table could not be counted", table=str(inspection.info.path), error=error.message)
            return None
        return None if lake_rows is None or lake_rows.has_unknown else with_marked_ranges(inspection.situation, lake_rows)

    def _rows_that_tell(self, inspection: Inspection) -> RowOffsets | None:
        """Returns the rows; None if they have no offsets. Raises LakeUnavailable or DataCorrupt for unreadable rows, because they would be
        doubled.
        """
        try:
            return self._lake_rows(inspection)
        except errors.SchemaDrift as error:
            _log.warning("the rows of a lake table could not be counted", table=str(inspection.info.path), error=error.message)
            return None

    def proofs(self, inspection: Inspection, decision: Decision, round_id: str) -> dict[BucketKey, BucketProof]:
        """Returns the marker's proofs of a clean table's buckets. Other buckets begin a new proof with their next round."""
        situation, ranges, survey = inspection.situation, decision.ranges, inspection.situation.survey
        if decision.adopted is not None:
            return {bucket: proof.linked(round_id, ranges[bucket].tiered, ()) for bucket, proof in decision.adopted.items()}
        kept = kept_proofs(survey if decision.proved_by is None else replace(survey, head_marker=decision.proved_by), ranges)
        if decision.lake_rows is None:
            return kept
        return {**rebuilt_proofs(survey.view, round_id, situation.places, ranges, decision.lake_rows), **kept}

    def archives(self, inspection: Inspection, ranges: Ranges) -> frozenset[int] | None:
        """Returns `Marker.archives` for the marker of a reconciliation."""
        info, survey = inspection.info, inspection.situation.survey
        if info.table_type is TableType.LOG or not info.partition_keys:
            return None
        return kept_archives(survey.markers, ranges)

    def archived_rows(self, inspection: Inspection, view: LakeView) -> int | None:
        """Returns the upper bound of rows of dropped partitions in the lake table; None if unknown. Raises LakeUnavailable, DataCorrupt."""
        lake = self._lakes.of(inspection.record.lake_format)
        if not inspection.info.partition_keys:
            return 0
        if not isinstance(lake, PartitionRows):
            return None
        offsets = self._rows_that_tell(inspection) if inspection.info.table_type is TableType.PRIMARY_KEY else None
        row_sums = None if offsets is None else offsets.places
        return archived_rows(inspection.situation, lake.partition_rows(inspection.info, view), row_sums)

    def _lost_archive(self, inspection: Inspection) -> int:
        """Returns the upper bound of tiered records of dropped partitions that the head lacks.

        The lake table was dropped, replaced, or rolled back below them. Neither the cluster nor its log has them.
        """
        record, situation, view = inspection.record.lake, inspection.situation, inspection.view
        if record.table_uuid is None:
            return 0
        living = {bucket.partition_id for bucket in situation.places}
        archived = record.archived_records + lake_acks.tiered_of_dropped(record, living)
        if archived and record.records is not None:
            is_log = inspection.info.table_type is TableType.LOG
            archived = min(archived, max(0, record.records - (lake_acks.tiered_of(record, living) if is_log else 0)))
        row_sums = self.archived_rows(inspection, view) if archived and view is not None else 0
        return archived if row_sums is None else max(0, archived - row_sums)

    def backfills(self, inspection: Inspection, decision: Decision) -> tuple[Backfill, ...]:
        """Returns the backfills whose rows the lake table has after the commit: those of the marker that proves its rows, or on which the
        head builds, and that of the commit."""
        survey = inspection.situation.survey
        base = decision.proved_by or survey.head_marker
        former = () if base is None or base.lake_table_uuid != survey.view.table_uuid else base.backfills
        return (*former, decision.written.backfill) if isinstance(decision.written, BackfillFiles) else former

    def maintenance(self, record: TableRecord) -> LakeMaintenance:
        """Returns the table's lake. Raises CannotReconcile for a format without the necessary reads."""
        lake = self._lakes.of(record.lake_format)
        if not isinstance(lake, LakeMaintenance):
            raise errors.CannotReconcile(f"the lake format {record.lake_format} cannot be reconciled by this version")
        return lake


def partitions_of(inspection: Inspection) -> dict[str, int]:
    """Returns the ids of the source's partitions by name."""
    places = inspection.situation.places.items()
    return {name: bucket.partition_id for bucket, (name, _) in places if name is not None and bucket.partition_id is not None}


def _goes_on_behind(inspection: Inspection, decision: Decision) -> errors.LogRewritten | None:
    """Returns the error of a bucket that would continue behind a changed record; None if there is no such bucket.

    A lake table that was set back below that record continues before it, and tiers the present record.
    """
    for bucket, reached in inspection.rewritten.items():
        if bucket in decision.ranges and decision.ranges[bucket].tiered >= reached:
            return log_rewritten(inspection.info, bucket, reached)
    return None


def _check_may_go_on_behind(action: ReconcileAction, inspection: Inspection, rewritten: errors.LogRewritten) -> None:
    """Raises CannotReconcile, except for `accept` of a log table. Only that action continues where the log's tiered records changed."""
    if action is not ReconcileAction.ACCEPT or inspection.info.table_type is TableType.PRIMARY_KEY:
        raise errors.CannotReconcile(rewritten.message, table_path=inspection.info.path)
