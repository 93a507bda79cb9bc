"""`lakeward sweep`: deletes what dead rounds left. The rules are in `tiering.lake.rules.sweep`; here: in which order things are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import structlog

from tiering import errors
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import CommitState, TableRecord
from tiering.coordinator.interface import SweepLake, SweepResult
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.lake_reader import Lakes
from tiering.lake.maintenance import LakeMaintenance, StoredFile
from tiering.lake.rules.sweep import RoundFate, SweptTable, Verdict, sweep_verdicts

_log = structlog.get_logger(__name__)

ALL_ROWS = 10_000_000
"""More than the store keeps: a grant that was not read would count as one that was never given."""

LANDED = frozenset({CommitState.LAKE_COMMITTED, CommitState.ACKED, CommitState.RECONCILED})


class Sweeper:
    """Sweeps one table or all; blocks."""

    def __init__(self, table_records: TableRecords, lakes: Lakes) -> None:
        self._table_records = table_records
        self._lakes = lakes

    def sweep(self, call: SweepLake) -> list[SweepResult]:
        """A result a table. Raises UnknownTable; what is wrong with one of several tables is in its result."""
        if call.path is not None:
            record = self._table_records.by_path(call.path)
            if record is None:
                raise errors.UnknownTable(f"{call.path} is not a lake table", hint="See sys.lake_tiering_status for the lake tables.")
            return [self._sweep(call, record)]
        results = []
        for record in sorted(self._table_records.live(), key=lambda one: one.path):
            try:
                results.append(self._sweep(call, record))
            except errors.LakewardError as error:
                results.append(SweepResult(record.path, 0, 0, 0, {}, f"{error.error_class}: {error.message}"))
        return results

    def _sweep(self, call: SweepLake, record: TableRecord) -> SweepResult:
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
        rounds = {one.round_id for one in view.snapshots.values() if one.round_id is not None}
        now = SweptTable(view.table_uuid, view.snapshots.keys(), view.tag, lake.live_files(view), rounds)
        verdicts = sweep_verdicts(files, fates, now, self._table_records.now().wall, timedelta(milliseconds=call.older_than_ms))
        doomed = [file for file, verdict in verdicts if verdict is Verdict.REMOVE]
        kept = Counter(verdict.value for _, verdict in verdicts if verdict is not Verdict.REMOVE)
        for file in () if call.dry_run else doomed:
            lake.delete_file(view, file.location)
        if doomed and not call.dry_run:
            self._note(call, record, doomed)
        return SweepResult(record.path, len(files), len(doomed), sum(file.size_bytes for file in doomed), dict(kept))

    def fates(self, record: TableRecord) -> Mapping[str, RoundFate]:
        """Every round of the table that the store knows. Read before anything in the lake is looked at.

        Grants are forgotten only once they are resolved, not before their round, and with so many newer ones that their tag is not the
        tag any more; a round that is not known at all keeps its files.
        """
        with self._table_records.changing():
            rounds = self._table_records.store.rounds(record.table_id, ALL_ROWS)
            commits = self._table_records.store.commits(record.table_id, ALL_ROWS)
        fates = {one.round_id: RoundFate(one.state.is_final) for one in rounds}
        for row in commits:
            fate = fates.get(row.round_id, RoundFate(ended=True))
            grants = (*fate.granted_on, row.base_tag)
            fates[row.round_id] = replace(fate, granted_on=grants, landed=row.state in LANDED, granted_for=row.lake_table_uuid)
        return fates

    def _note(self, call: SweepLake, record: TableRecord, doomed: list[StoredFile]) -> None:
        names = [file.name for file in doomed[:100]]
        with self._table_records.changing():
            latest = self._table_records.get(record.table_id)
            if latest is not None:
                told = Change(latest).note(
                    self._table_records.context(call.caller), "LAKE_SWEPT", f"{len(doomed)} files deleted", files=names
                )
                self._table_records.put(told)
        _log.info("swept a lake table", table=str(record.path), files=len(doomed))
