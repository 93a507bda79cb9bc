"""`lakeward sweep`: deletes files of dead rounds, files that only expired snapshots named, and old metadata files.

`tiering.lake.rules.sweep` decides which files may be deleted. This module reads the facts in the order that makes the decision safe.
`background_sweeps` does the same for every table on a schedule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from tiering import crash_points, errors
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import CommitState, TableRecord
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.counts import counted
from tiering.lake.base import LakeView
from tiering.lake.maintenance import ExpiredAncestors, FollowUpCommits, LakeMaintenance, OldMetadata, StoredFile
from tiering.lake.rules.base_check import ExpectedLake, check_base
from tiering.lake.rules.sweep import RoundFate, SweptTable, Verdict, is_own, round_of, sweep_verdicts
from tiering.lake.rules.upkeep.expired_files import CommittedRound, FilesOfRounds, Lineage, OrphanCandidates, lineage_of
from tiering.lake.rules.upkeep.former_rounds import LEFT_TO_LEDGER, forgotten_round, note_of, noted_fates, noted_history
from tiering.procedures.sweep_lake import SweepLake, SweepResult
from tiering.throttle import Throttling, unthrottled

_log = structlog.get_logger(__name__)

ALL_ROWS = 10_000_000
"""Limit of reads, above what the store keeps. A grant that is not read would count as never given."""

LANDED = frozenset({CommitState.LAKE_COMMITTED, CommitState.ACKED, CommitState.RECONCILED})


@dataclass(frozen=True)
class SweepLimits:
    """Limits that let a sweep run beside other work.

    `expired_older_than_ms` is the guard of expired files and old metadata files; None for that of the request. `max_files` is the upper
    bound of deletions in one table.
    """

    expired_older_than_ms: int | None = None
    max_files: int | None = None
    throttle: Throttling = unthrottled


NO_LIMITS = SweepLimits()


@dataclass(frozen=True)
class Ledger:
    """The stored facts about a table's rounds. `fates`: the newest round first. `rounds`: all granted rounds, with their bases."""

    fates: Mapping[str, RoundFate]
    rounds: Sequence[CommittedRound]


class SweptRounds:
    """The rounds of one table in one sweep. The constructor reads the result of an earlier sweep, before anything in the lake is read."""

    def __init__(self, table_records: TableRecords, table_id: int, ledger: Ledger) -> None:
        self._table_records = table_records
        self._table_id = table_id
        self.ledger = ledger
        self._note = table_records.store.former_rounds(table_id)

    def fates(self, table_uuid: str) -> dict[str, RoundFate]:
        """Returns the fates of all rounds with a known grant. A fate in the ledger overrides a noted one."""
        noted = noted_fates(self._note, table_uuid)
        return {**self.ledger.fates, **{round_id: noted[round_id] for round_id in noted.keys() - self.ledger.fates.keys()}}

    def proved(
        self, lake: LakeMaintenance, view: LakeView, files: Sequence[StoredFile], live: Collection[str], lineage: Lineage
    ) -> Lineage:
        """Returns `lineage` with the rounds that the ledger no longer has."""
        proved = {*lineage.rounds, *(noted_history(self._note, lineage) - self.ledger.fates.keys())}
        known_rounds = {*self.fates(view.table_uuid), *proved}
        unknown = {file: round_id for file in files if (round_id := forgotten_round(file.name, known_rounds)) is not None}
        proved |= {round_id for file, round_id in unknown.items() if file.location in live}
        if not proved.issuperset(unknown.values()) and isinstance(lake, ExpiredAncestors):
            lists = lake.expired_ancestors(view, files)
            proved |= {round_id for name in lists if (round_id := forgotten_round(name, known_rounds)) is not None}
        return replace(lineage, rounds=frozenset(proved))

    def note(self, view: LakeView, files: Sequence[StoredFile], lineage: Lineage | None, fates: Mapping[str, RoundFate]) -> None:
        """Stores what is known and proved about the rounds of `files`, unless it is stored already.

        The newest rounds in the ledger are omitted, because the ledger keeps them for long. Raises StoreError, Fenced.
        """
        young = set(list(self.ledger.fates)[: len(self.ledger.fates) // LEFT_TO_LEDGER])
        stored = dict.fromkeys(
            round_id
            for file in files
            if is_own(file.name) and (round_id := round_of(file.name, fates) or forgotten_round(file.name, fates)) is not None
        )
        note = note_of(self._note, view.table_uuid, lineage, fates, (round_id for round_id in stored if round_id not in young))
        if note != self._note:
            self._table_records.note_former_rounds(self._table_id, note)


@dataclass(frozen=True)
class SweptFiles:
    """The files in one sweep of a table: their number, those that were or would be deleted, and the number of others by verdict."""

    files: int = 0
    removed: Sequence[StoredFile] = ()
    kept: Mapping[str, int] = field(default_factory=dict)


class Sweeper:
    """Sweeps one table or all tables. Its methods block."""

    def __init__(
        self,
        table_records: TableRecords,
        lakes: Lakes,
        candidates: OrphanCandidates,
        cluster_id: str,
        read_snapshots: Callable[[int], frozenset[int] | None],
    ) -> None:
        """`read_snapshots` returns the lake snapshots that open reads of a table need; None = unknown."""
        self._read_snapshots = read_snapshots
        self._table_records = table_records
        self._lakes = lakes
        self._orphan_candidates = candidates
        self._cluster_id = cluster_id

    def sweep(self, request: SweepLake) -> list[SweepResult]:
        """Sweeps and returns one result per table. Raises UnknownTable. With several tables, errors are in the results."""
        if request.path is not None:
            record = self._table_records.by_path(request.path)
            if record is None:
                raise errors.UnknownTable(f"{request.path} is not a lake table", hint="See sys.lake_tiering_status for the lake tables.")
            return [self.sweep_table(request, record)]
        results = []
        for record in sorted(self._table_records.live(), key=lambda record: record.path):
            try:
                results.append(self.sweep_table(request, record))
            except errors.LakewardError as error:
                results.append(SweepResult(record.path, 0, 0, 0, {}, f"{error.error_class}: {error.message}"))
        return results

    def sweep_table(self, request: SweepLake, record: TableRecord, limits: SweepLimits = NO_LIMITS) -> SweepResult:
        """Sweeps one table. Raises InvalidArgument, LakeTableReplaced, LakeUnavailable."""
        swept = self.swept_files(request, record, limits)
        size = sum(file.size_bytes for file in swept.removed)
        return SweepResult(record.path, swept.files, len(swept.removed), size, dict(swept.kept))

    def swept_files(self, request: SweepLake, record: TableRecord, limits: SweepLimits = NO_LIMITS) -> SweptFiles:
        """Sweeps one table and returns the files. Raises like `sweep_table`."""
        lake = self._lakes.of(record.lake_format)
        if not isinstance(lake, LakeMaintenance):
            raise errors.InvalidArgument(f"the lake format {record.lake_format} cannot be swept by this version")
        swept = SweptRounds(self._table_records, record.table_id, self._ledger(record))
        first = lake.survey(record.path)
        if first is None or record.lake.table_uuid is None:  # the uuid is recorded before a round writes its first file
            return SweptFiles()
        files = lake.stored_files(first.view)
        limits.throttle()
        survey = lake.survey(record.path)
        uuids = {first.view.table_uuid, None if survey is None else survey.view.table_uuid}
        if survey is None or uuids != {record.lake.table_uuid}:
            raise errors.LakeTableReplaced(
                f"the lake table {record.path} is not the one to which it was tiered: nothing in it is deleted",
                hint="See the table's error in sys.lake_tiering_status first.",
                table_path=record.path,
            )
        limits.throttle()
        verdicts = self._verdicts(request, limits, record, lake, survey.view, files, swept)
        doomed = [file for file, verdict in verdicts if verdict is Verdict.REMOVE][: limits.max_files]
        kept = Counter(verdict.value for _, verdict in verdicts if verdict is not Verdict.REMOVE)
        if not request.dry_run:
            self._delete(request, limits, record, lake, survey.view, doomed)
        return SweptFiles(len(files), tuple(doomed), kept)

    def _verdicts(
        self,
        request: SweepLake,
        limits: SweepLimits,
        record: TableRecord,
        lake: LakeMaintenance,
        view: LakeView,
        files: Sequence[StoredFile],
        swept: SweptRounds,
    ) -> list[tuple[StoredFile, Verdict]]:
        """Returns the verdict on each file. Files that may be deleted come in the order of their deletion."""
        now, live = self._table_records.now().wall, lake.live_files(view)
        rounds = {snapshot.round_id for snapshot in view.snapshots.values() if snapshot.round_id is not None}
        lineage = self._lineage(record, lake, view, swept.ledger)
        fates = swept.fates(view.table_uuid)
        dead_since: Mapping[str, datetime] = {}
        if lineage is not None:
            lineage = swept.proved(lake, view, files, live, lineage)
            fates |= {round_id: replace(fates[round_id], landed=True) for round_id in lineage.rounds if round_id in fates}
            dead_since = self._orphan_candidates.observe(
                record.table_id, lineage, files_of_rounds(files, fates, live, rounds, lineage.rounds), now
            )
        if not request.dry_run:
            swept.note(view, files, lineage, fates)
        oldest = min((snapshot.committed_at for snapshot in view.snapshots.values()), default=None)
        table = SweptTable(
            view.table_uuid,
            view.snapshots.keys(),
            view.tiered,
            live,
            rounds,
            begins_untiered(view),
            dead_since,
            oldest,
            has_follow_up_commits=isinstance(lake, FollowUpCommits) and lake.has_follow_up_commits,
        )
        older_than = timedelta(milliseconds=request.older_than_ms)
        expired_ms = limits.expired_older_than_ms
        expired_older_than = older_than if expired_ms is None else timedelta(milliseconds=expired_ms)
        verdicts = sweep_verdicts(files, fates, table, now, older_than, expired_older_than)
        if lineage is None or not isinstance(lake, OldMetadata):
            return verdicts
        unnamed = lake.unnamed_metadata(view, [file for file in files if file.modified_at < now - expired_older_than])
        former = {file.location for file in unnamed}
        return [*(entry for entry in verdicts if entry[0].location not in former), *((file, Verdict.REMOVE) for file in unnamed)]

    def _lineage(self, record: TableRecord, lake: LakeMaintenance, view: LakeView, ledger: Ledger) -> Lineage | None:
        """Returns the rounds that lead to the newest tiering commit; None if no expired file may be deleted: the lake shows another commit,
        its user keeps all files, or an open read may need them."""
        recorded_lake, marker = record.lake, view.marker
        if not isinstance(lake, OldMetadata) or not lake.may_delete_expired(view) or marker is None:
            return None
        if (recorded_lake.snapshot_id, recorded_lake.marker_round_id) != (view.tiered, marker.round_id):
            return None  # a round has just landed, or the table was set back
        read_snapshots = self._read_snapshots(record.table_id)
        if read_snapshots is None or not view.snapshots.keys() >= read_snapshots:
            return None  # an open read may need files of a snapshot that has expired
        recorded = () if recorded_lake.recorded is None else (recorded_lake.recorded,)
        uuid, living = recorded_lake.table_uuid, {bucket.partition_id for bucket in marker.buckets if bucket.partition_id is not None}
        try:
            check_base(view, ExpectedLake(self._cluster_id, record.table_id, uuid, recorded_lake.passed_head, recorded, living))
        except errors.LakewardError:
            return None
        return lineage_of(view.table_uuid, marker.round_id, marker.base_round_id, ledger.rounds)

    def _delete(
        self,
        request: SweepLake,
        limits: SweepLimits,
        record: TableRecord,
        lake: LakeMaintenance,
        view: LakeView,
        doomed: Sequence[StoredFile],
    ) -> None:
        """Deletes the files. Even if a deletion fails, the history names the files that were deleted before."""
        deleted_files: list[StoredFile] = []
        try:
            for file in doomed:
                lake.delete_file(view, file.location)
                deleted_files.append(file)
                crash_points.reach(crash_points.SWEEP_DELETING)
                if not limits.throttle():
                    break
        finally:
            if deleted_files:
                crash_points.reach(crash_points.SWEEP_DELETED)
                self._note(request, record, deleted_files)

    def _ledger(self, record: TableRecord) -> Ledger:
        """Returns the stored rounds of the table. Read them before anything in the lake.

        A grant is pruned only once it is resolved, and not before its round. An unknown round keeps its files.
        """
        with self._table_records.changing():
            rounds = self._table_records.store.rounds(record.table_id, ALL_ROWS)
            commits = self._table_records.store.commits(record.table_id, ALL_ROWS)
        fates = {
            row.round_id: RoundFate(row.state.is_final, epoch=row.tiering_epoch, may_be_granted=row.outlived_coordinator) for row in rounds
        }
        for row in commits:
            fate = fates.get(row.round_id, RoundFate(ended=True, epoch=row.tiering_epoch))
            grants = (*fate.granted_on, row.base_tag)
            fates[row.round_id] = replace(fate, granted_on=grants, landed=row.state in LANDED, granted_for=row.lake_table_uuid)
        return Ledger(fates, tuple(CommittedRound(row.round_id, row.base_round_id) for row in commits))

    def _note(self, request: SweepLake, record: TableRecord, doomed: list[StoredFile]) -> None:
        names = [file.name for file in doomed[:100]]
        with self._table_records.changing():
            latest = self._table_records.get(record.table_id)
            if latest is not None:
                ctx = self._table_records.context(request.caller)
                size = sum(file.size_bytes for file in doomed)
                self._table_records.put(
                    Change(latest).note(ctx, "LAKE_SWEPT", f"{counted(len(doomed), 'file')} deleted", files=names, size_bytes=size)
                )
        _log.info("swept a lake table", table=str(record.path), files=len(doomed))


def begins_untiered(view: LakeView) -> bool:
    """Returns whether the lake table has a snapshot that is older than all rounds' ones, so that it may be rolled back to untiered."""
    oldest = min((snapshot.sequence_number for snapshot in view.snapshots.values() if snapshot.round_id is not None), default=None)
    return any(oldest is None or snapshot.sequence_number < oldest for snapshot in view.snapshots.values())


def files_of_rounds(
    files: Sequence[StoredFile],
    fates: Mapping[str, RoundFate],
    live: Collection[str],
    shown_rounds: Collection[str],
    proved: Collection[str] = (),
) -> FilesOfRounds:
    """Returns Lakeward's files in the form that `OrphanCandidates` uses. `shown_rounds` are the rounds whose snapshots exist.

    `proved` are rounds of the table's history, including rounds that the ledger no longer has.
    """
    dead, pruned_live, pruned_dead = dict[str, str](), list[str](), list[str]()
    for file in files:
        if not is_own(file.name):
            continue
        round_id = round_of(file.name, fates)
        if round_id is None:
            forgotten = forgotten_round(file.name, fates)
            if forgotten in proved and forgotten not in shown_rounds and file.location not in live:
                dead[file.location] = str(forgotten)
            else:
                (pruned_live if file.location in live else pruned_dead).append(file.location)
        elif file.location not in live and fates[round_id].landed and round_id not in shown_rounds:
            dead[file.location] = round_id
    return FilesOfRounds(dead, pruned_live, pruned_dead)
