"""`CALL sys.replay_dead_letters` and `CALL sys.discard_dead_letters`: settle dead letters in a commit that moves no offset.

The whole call runs under the table's lock, with the commit of `reconcile_lake`: an epoch that fences a running round, and one
compare-and-set on uuid, head and newest tiering commit. Its marker is the one of its base without the settled dead letters
(`lake.dead_letters.settled`).

A crash at any point is safe. Before the commit, no snapshot names the files, and the dead letters wait in the marker. Afterwards the marker
no longer names them, so no later call replays them again, and the same CALL reads from the two markers what the first one did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions import reconciliation
from tiering.coordinator.decisions.reconciliation import ReconciledCommit
from tiering.coordinator.decisions.records import LakeCommitRecord
from tiering.coordinator.lake_repair.backfill_condition import ConditionArgument, RowCondition
from tiering.coordinator.lake_repair.decision import Decision, Inspection, LetterFiles
from tiering.coordinator.lake_repair.letter_rows import LetterWriter, WaitingLetter
from tiering.coordinator.lake_repair.reconciler import Reconciler
from tiering.instants import to_microseconds
from tiering.lake.base import Lake, LakeView, WriteResult, WriterInitContext
from tiering.lake.dead_letters.settled import Letters, SettledLetters, settled_between
from tiering.lake.dead_letters.table import SCHEMA, dead_letter_info, read_letters
from tiering.lake.file_lists import ReadableLake
from tiering.lake.marker import Marker
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType
from tiering.procedures.base import Mutation, ResultT
from tiering.procedures.discard_dead_letters import DiscardDeadLetters, DiscardDeadLettersResult
from tiering.procedures.replay_dead_letters import ReplayDeadLetters, ReplayDeadLettersResult

_NOT_IN_CONDITIONS = frozenset({"record", "raw_record", "table_id", "trace"})
"""Columns of the dead-letter table that no condition compares: values need another privilege, and the others are no columns of `sys`."""
_NOTHING = SettledLetters()

Outcomes = tuple[str, str, str]
"""The outcome of a call: done, a dry run, nothing to do."""
REPLAYED: Outcomes = ("replayed", "would_replay", "nothing_to_replay")
DISCARDED: Outcomes = ("discarded", "would_discard", "nothing_to_discard")


@dataclass(frozen=True)
class _Work:
    """The dead letters that a call settles, and the files of a replay before their commit. `refused` has reasons without values."""

    settled: SettledLetters
    results: tuple[WriteResult, ...] = ()
    refused: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    abort: Callable[[], None] = lambda: None
    """Deletes the files, but only before a commit was sent. Never raises."""


@dataclass(frozen=True)
class _Answer:
    """The work of a call, in the terms of both procedures."""

    outcome: str
    work: _Work
    round_id: str | None = None
    snapshot_id: int | None = None

    def replayed(self, request: ReplayDeadLetters) -> ReplayDeadLettersResult:
        settled, refused = self.work.settled, self.work.refused
        counts = _count(settled.replayed), _count(settled.left_out), len(refused)
        reasons = next(iter(refused), None), self.work.refusals
        return ReplayDeadLettersResult(request.path, self.outcome, self.round_id, self.snapshot_id, *counts, *reasons)

    def discarded(self, request: DiscardDeadLetters) -> DiscardDeadLettersResult:
        discarded = _count(self.work.settled.left_out)
        return DiscardDeadLettersResult(request.path, self.outcome, self.round_id, self.snapshot_id, discarded)


class LetterSettler:
    """Replays or discards dead letters of one table at a time."""

    def __init__(self, parts: CallParts) -> None:
        self._parts = parts
        self._reconciler = Reconciler(parts)

    def replay(self, request: ReplayDeadLetters) -> ReplayDeadLettersResult:
        """Writes the chosen records into the lake table."""
        return self._settle(request, request.path, request.where, REPLAYED, lambda answer: answer.replayed(request))

    def discard(self, request: DiscardDeadLetters) -> DiscardDeadLettersResult:
        """Gives up waiting for the chosen records."""
        return self._settle(request, request.path, request.where, DISCARDED, lambda answer: answer.discarded(request))

    def _settle(
        self,
        request: Mutation[ResultT],
        path: TablePath,
        where: str | None,
        outcomes: Outcomes,
        result_of: Callable[[_Answer], ResultT],
    ) -> ResultT:
        parts = self._parts
        if (earlier_answer := parts.operations.answer(request)) is not None:
            return earlier_answer
        info = parts.cluster.table(path)
        argument = ConditionArgument("where", request.procedure, "Nothing was changed.")
        condition = None if where is None else RowCondition(where, _letter_columns(info), argument=argument)
        with parts.table_lock(info.table_id):
            if (earlier_answer := parts.operations.answer(request)) is not None:
                return earlier_answer  # a concurrent call with the same key had the lock before
            info = self._reconciler.current(info)  # its columns may have changed while this call waited for the lock
            inspection = self._inspect(info, follow=not request.dry_run)
            if (landed := self._landed(request, inspection, outcomes, result_of)) is not None:
                return landed
            reconciliation.check_no_open_grant(inspection.record)
            letters = self._chosen(inspection, condition)
            result = self._carry_out(request, inspection, letters, outcomes, result_of)
        if not request.dry_run:
            parts.observer.observe_soon(info.table_id)
        return result

    def _inspect(self, info: TableInfo, *, follow: bool) -> Inspection:
        """Reads the table. `follow`: changed columns of the source come into the lake table first, as a round brings them.

        Raises CannotReconcile unless a round could build on its lake table.
        """
        lake = self._parts.lakes.of(info.lake_format)
        if follow and lake.view(info.path) is not None:
            lake.ensure_table(info, may_create=False)
        inspection = self._reconciler.inspect(info)
        inspection.check_sound("no dead letter was settled", "make this CALL again")
        walk, view = inspection.situation.walk, inspection.view
        if walk is not None and view is not None and (walk.newest != view.tiered or walk.moved_back):
            # The commit repeats the newest marker, which does not know that service's rows, and what the next round has to replay.
            raise errors.CannotReconcile(
                f"another tiering service has committed to the lake table {info.path} after the newest round, so nothing was settled",
                hint="Make this CALL again after the next round that brings rows.",
                table_path=info.path,
            )
        return inspection

    def _landed(
        self, request: Mutation[ResultT], inspection: Inspection, outcomes: Outcomes, result_of: Callable[[_Answer], ResultT]
    ) -> ResultT | None:
        """Completes an earlier call with this key whose commit is in the lake; None if the call has to be performed."""
        earlier, view = self._parts.operations.earlier_call(request), inspection.view
        if earlier is None or earlier.round_id is None or view is None or not isinstance(lake := self._lake(inspection), ReadableLake):
            return None
        marker = _marker_of(lake, view, earlier.round_id)
        if marker is None:
            return None
        before = _marker_of(lake, view, marker.base_round_id)
        work = _Work(_NOTHING if before is None else settled_between(before, marker))
        result = result_of(_Answer(outcomes[0], work, earlier.round_id, view.tiered))
        left_open = self._reconciler.left_open(request, inspection.info, lambda *_: result)
        return self._reconciler.keep_answer(request, inspection.info, result) if left_open is None else left_open

    def _chosen(self, inspection: Inspection, condition: RowCondition | None) -> list[WaitingLetter]:
        """Returns the dead letters that wait and match the condition. Raises LakeUnavailable, InvalidArgument."""
        marker, info = inspection.marker, inspection.info
        waiting: dict[tuple[BucketKey, int], str | None] = {}
        if marker is not None:
            for bucket, offsets in marker.dead_letters.items():
                waiting.update({(bucket, offset): marker.skipped[bucket].get(offset) for offset in offsets})
        chosen: dict[tuple[BucketKey, int], WaitingLetter] = {}
        for batch in read_letters(self._lake(inspection), info.path, info.lake_format) if waiting else ():
            rows = batch if condition is None else batch.filter(pa.array(condition.matches(batch)))
            for row in rows.select(["table_id", "partition_id", "bucket_id", "offset", "trace", "raw_record"]).to_pylist():
                place = BucketKey(row["partition_id"], row["bucket_id"]), row["offset"]
                if row["table_id"] == info.table_id and place in waiting and waiting[place] == row["trace"]:
                    chosen[place] = WaitingLetter(*place, row["raw_record"] or b"")
        if condition is None:
            chosen = {place: chosen.get(place, WaitingLetter(*place)) for place in waiting}
        return list(chosen.values())

    def _carry_out(
        self,
        request: Mutation[ResultT],
        inspection: Inspection,
        letters: list[WaitingLetter],
        outcomes: Outcomes,
        result_of: Callable[[_Answer], ResultT],
    ) -> ResultT:
        view = inspection.view
        with self._parts.table_records.changing():
            ctx = self._parts.table_records.context(request.caller)
            round_id = ctx.new_round_id
        if isinstance(request, ReplayDeadLetters):
            work = self._written(inspection, letters, round_id, to_microseconds(ctx.now.wall))
        else:
            work = _Work(SettledLetters(left_out=_by_bucket(letters)))
        if view is None or not _count(work.settled.replayed) + _count(work.settled.left_out):
            result = result_of(_Answer(outcomes[2], work))
            return result if request.dry_run else self._reconciler.keep_answer(request, inspection.info, result)
        if request.dry_run:
            work.abort()
            return result_of(_Answer(outcomes[1], work))

        def answer(row: LakeCommitRecord, in_lake: ReconciledCommit, records_removed: int | None) -> ResultT:
            return result_of(_Answer(outcomes[0], work, row.round_id, in_lake.snapshot_id))

        files = LetterFiles(round_id, work.settled, work.results, getattr(request, "reason", None))
        try:
            return self._reconciler.carry_out(request, request.procedure, inspection, Decision(dict(view.ranges), 0, written=files), answer)
        except errors.CommitOutcomeUnknown:
            raise
        except BaseException:
            work.abort()  # deletes nothing once a request was sent
            raise

    def _written(self, inspection: Inspection, letters: list[WaitingLetter], round_id: str, time_us: int) -> _Work:
        """Writes the rows of the letters, on the files that the lake table has now. After an error no file is left."""
        view, marker = inspection.view, inspection.marker
        if view is None or marker is None:
            return _Work(_NOTHING)
        info, lake = replace(inspection.info, snapshot_retention=None), self._lake(inspection)
        by_bucket: defaultdict[BucketKey, list[WaitingLetter]] = defaultdict(list)
        for letter in letters:
            by_bucket[letter.bucket].append(letter)
        places = inspection.situation.places
        names = {bucket: places[bucket][0] for bucket in by_bucket if bucket in places}
        bases = lake.bucket_files(info, view, names) if info.table_type is TableType.PRIMARY_KEY else {}
        writer = LetterWriter(self._parts.cluster, info, lake.tiering_factory(info), round_id, time_us)
        try:
            for bucket, name in names.items():
                context = WriterInitContext(info, view.table_uuid, bucket, name, round_id, "", bases.get(bucket, b""))
                unreadable = marker.skipped.get(bucket, {}).keys() - {*marker.dead_letters.get(bucket, ())}
                writer.write(context, by_bucket[bucket], marker.buckets[bucket].tiered, unreadable)
        except BaseException:
            writer.abort()
            raise
        written = writer.written
        settled = SettledLetters(written.replayed, written.superseded, written.superseded)
        reasons = tuple(written.refused.values()), written.refusals(info.path, names)
        return _Work(settled, tuple(written.results), *reasons, writer.abort)

    def _lake(self, inspection: Inspection) -> Lake:
        return self._parts.lakes.of(inspection.record.lake_format)


def _marker_of(lake: ReadableLake, view: LakeView, round_id: str | None) -> Marker | None:
    """Returns the marker of a round's snapshot; None if there is no such snapshot any more."""
    snapshot = next((snapshot for snapshot in view.snapshots.values() if snapshot.round_id == round_id is not None), None)
    return None if snapshot is None else lake.marker_at(view, snapshot.snapshot_id)


def _letter_columns(info: TableInfo) -> TableInfo:
    """Returns the dead-letter table with the columns that a condition may compare."""
    return replace(dead_letter_info(info), schema=pa.schema([field for field in SCHEMA if field.name not in _NOT_IN_CONDITIONS]))


def _by_bucket(letters: list[WaitingLetter]) -> dict[BucketKey, set[int]]:
    offsets: defaultdict[BucketKey, set[int]] = defaultdict(set)
    for letter in letters:
        offsets[letter.bucket].add(letter.offset)
    return dict(offsets)


def _count(letters: Letters) -> int:
    return sum(len(offsets) for offsets in letters.values())
