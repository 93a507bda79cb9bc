"""`lakeward sweep`: deletes what dead rounds left in the lake.

Which files may go is decided by `tiering.lake.rules.sweep`; this module reads what it needs, in the order that makes the answer safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from tiering import crash_points, errors
from tiering.coordinator.calls.effects import CallParts, Pool, effect
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import CommitState, TableRecord
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.coordinator.requests import CallRequest
from tiering.counts import counted
from tiering.lake.base import LakeView
from tiering.lake.maintenance import LakeMaintenance, StoredFile
from tiering.lake.rules.sweep import RoundFate, SweptTable, Verdict, sweep_verdicts
from tiering.model.call_results import SweepResult
from tiering.model.tables import TablePath

_log = structlog.get_logger(__name__)

ALL_ROWS = 10_000_000
"""More than the store keeps: a grant that was not read would count as one that was never given."""

LANDED = frozenset({CommitState.LAKE_COMMITTED, CommitState.ACKED, CommitState.RECONCILED})


@dataclass(frozen=True)
class SweepLake(CallRequest[Sequence[SweepResult]]):
    """Arguments of `lakeward sweep`. `path` None = all lake tables; files younger than `older_than_ms` stay."""

    procedure = "sweep_lake"
    result_class = Sequence[SweepResult]
    path: TablePath | None
    older_than_ms: int
    dry_run: bool = False


@effect(SweepLake, pool=Pool.REPAIR)
def sweep_lake(parts: CallParts, request: SweepLake) -> Sequence[SweepResult]:
    """A result a table. Raises UnknownTable, InvalidArgument; what is wrong with one of several tables is in its result."""
    if request.older_than_ms < 0:
        raise errors.InvalidArgument(f"older_than must not be negative, but is {request.older_than_ms} ms")
    if request.path is not None and parts.table_records.by_path(request.path) is None:
        parts.discovery.run_quietly()  # it may have been made a moment ago
    return Sweeper(parts.table_records, parts.lakes).sweep(request)


class Sweeper:
    """Sweeps one table or all. Its methods block."""

    def __init__(self, table_records: TableRecords, lakes: Lakes) -> None:
        self._table_records = table_records
        self._lakes = lakes

    def sweep(self, request: SweepLake) -> list[SweepResult]:
        """A result a table. Raises UnknownTable; what is wrong with one of several tables is in its result."""
        if request.path is not None:
            record = self._table_records.by_path(request.path)
            if record is None:
                raise errors.UnknownTable(f"{request.path} is not a lake table", hint="See sys.lake_tiering_status for the lake tables.")
            return [self._sweep(request, record)]
        results = []
        for record in sorted(self._table_records.live(), key=lambda record: record.path):
            try:
                results.append(self._sweep(request, record))
            except errors.LakewardError as error:
                results.append(SweepResult(record.path, 0, 0, 0, {}, f"{error.error_class}: {error.message}"))
        return results

    def _sweep(self, request: SweepLake, record: TableRecord) -> SweepResult:
        lake = self._lakes.of(record.lake_format)
        if not isinstance(lake, LakeMaintenance):
            raise errors.InvalidArgument(f"the lake format {record.lake_format} cannot be swept by this version")
        fates = self.fates(record)
        first = lake.survey(record.path)
        if first is None or record.lake.table_uuid is None:  # the uuid is recorded before a round writes its first file
            return SweepResult(record.path, 0, 0, 0, {})
        files = lake.stored_files(first.view)
        survey = lake.survey(record.path)
        uuids = {first.view.table_uuid, None if survey is None else survey.view.table_uuid}
        if survey is None or uuids != {record.lake.table_uuid}:
            raise errors.LakeTableReplaced(
                f"the lake table {record.path} is not the one that was tiered to: nothing of it is deleted",
                hint="See the table's error in sys.lake_tiering_status first.",
                table_path=record.path,
            )
        view = survey.view
        rounds = {snapshot.round_id for snapshot in view.snapshots.values() if snapshot.round_id is not None}
        live = lake.live_files(view)
        now = SweptTable(view.table_uuid, view.snapshots.keys(), view.tiered, live, rounds, begins_untiered(view))
        verdicts = sweep_verdicts(files, fates, now, self._table_records.now().wall, timedelta(milliseconds=request.older_than_ms))
        doomed = [file for file, verdict in verdicts if verdict is Verdict.REMOVE]
        kept = Counter(verdict.value for _, verdict in verdicts if verdict is not Verdict.REMOVE)
        if not request.dry_run:
            self._delete(request, record, lake, view, doomed)
        return SweepResult(record.path, len(files), len(doomed), sum(file.size_bytes for file in doomed), dict(kept))

    def _delete(self, request: SweepLake, record: TableRecord, lake: LakeMaintenance, view: LakeView, doomed: Sequence[StoredFile]) -> None:
        """Also where a deletion fails, the history names those that went before."""
        gone: list[StoredFile] = []
        try:
            for file in doomed:
                lake.delete_file(view, file.location)
                gone.append(file)
                crash_points.reach(crash_points.SWEEP_DELETING)
        finally:
            if gone:
                crash_points.reach(crash_points.SWEEP_DELETED)
                self._note(request, record, gone)

    def fates(self, record: TableRecord) -> Mapping[str, RoundFate]:
        """Every round of the table that the store knows. Read before anything in the lake is looked at.

        Grants are forgotten only once they are resolved, and not before their round; a round that is not known at all keeps its files.
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
        return fates

    def _note(self, request: SweepLake, record: TableRecord, doomed: list[StoredFile]) -> None:
        names = [file.name for file in doomed[:100]]
        with self._table_records.changing():
            latest = self._table_records.get(record.table_id)
            if latest is not None:
                ctx = self._table_records.context(request.caller)
                self._table_records.put(Change(latest).note(ctx, "LAKE_SWEPT", f"{counted(len(doomed), 'file')} deleted", files=names))
        _log.info("swept a lake table", table=str(record.path), files=len(doomed))


def begins_untiered(view: LakeView) -> bool:
    """Whether the lake table has a snapshot that is older than those of all rounds: it may be rolled back to where nothing was tiered."""
    oldest = min((snapshot.sequence_number for snapshot in view.snapshots.values() if snapshot.round_id is not None), default=None)
    return any(oldest is None or snapshot.sequence_number < oldest for snapshot in view.snapshots.values())
