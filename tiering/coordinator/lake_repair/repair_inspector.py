"""Inspects the lake tables of tables that failed permanently: which statement helps, and whether a user repaired the lake table.

The result is stored with the table's error (`RepairOption`) for `decisions.next_action`. A reconciliation is suggested only if it leaves no
record out, as lake and log are now. Other reconciliations are in the hint, with the number of records that they leave out. If an inspection
finds the lake table intact, the table is retried, as after a change of the source table. If it fails again with such an error, a statement
is suggested.

Inspections take no lock. A concurrent call sees the record as it is, and the result of an outdated inspection is dropped. A pass waits for
each inspection only for a short time (`lake_probes`). An inspection that is delayed by a hanging catalog stores its result itself when it
ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count

import structlog

from tiering import errors
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions import reconciliation
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.next_action import (
    CatalogNames,
    failed_for_good,
    former_name,
    needs_inspection,
    repair_of,
    repair_statement,
)
from tiering.coordinator.decisions.records import ErrorInfo, RepairKind, RepairOption, TableRecord
from tiering.coordinator.lake_repair.decision import Inspection
from tiering.coordinator.lake_repair.reconciler import LAKE_CATALOG, Reconciler
from tiering.coordinator.observing.lake_probes import LakeProbe, LakeProbes, Side, SideReporter
from tiering.counts import counted
from tiering.lake.base import LakeView
from tiering.lake.maintenance import ColumnValues, DriftCheck, LakeMaintenance, LakeSurvey
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.hints import is_empty, keeping_table_hint, new_table_hint, reconcile_call
from tiering.lake.rules.reconcile import ReconcileAction, records_left_out, retiered
from tiering.model.tables import TablePath, TableType
from tiering.throttle import Throttling, unthrottled

_log = structlog.get_logger(__name__)

_REPAIRED = RepairOption(RepairKind.RETRY)
_NOTHING_HELPS = RepairOption(RepairKind.NONE)
_FOREIGN_TIERING_ERRORS = (errors.ForeignTiering, errors.ForeignTieringOverlap, errors.ForeignTieringGap, errors.ForeignTieringUnproved)
_AFTER_FOREIGN_TIERING = (ReconcileAction.ADOPT, ReconcileAction.DEDUPLICATE, ReconcileAction.RETIER)
_OTHERWISE = (ReconcileAction.RETIER, ReconcileAction.DEDUPLICATE, ReconcileAction.ADOPT)

THREADS = 32
"""Number of inspections that may hang or take long before inspections of other tables have to wait."""

PATIENCE_MS = 200
"""How long a pass waits for an inspection. Most end within this time; a later result is stored, too."""

LATE_PATIENCE_MS = 50
"""How long a pass waits for an inspection of a table whose latest one was late: enough to start it."""

InspectionKey = tuple[object, ...]
"""Everything on which the result of an inspection depends: if it is the same again, so is the result."""


class RepairInspector:
    """Inspects failed tables. One thread at a time calls `inspect_all`. Inspections have threads of their own, at most one per table."""

    def __init__(self, parts: CallParts) -> None:
        self._parts = parts
        self._reconciler = Reconciler(parts)
        self._decider = self._reconciler.decider
        self._threads = LakeProbes(THREADS, "way-out")
        self._inspected: dict[int, tuple[InspectionKey, RepairOption]] = {}
        self._retried = defaultdict[int, set[str]](set)
        """The classes of errors after which each table was retried since its last success."""
        self._late: set[int] = set()
        self._closed = False

    def inspect_all(self, throttle: Throttling = unthrottled, patience_ms: int = PATIENCE_MS) -> None:
        """Inspects every table that failed permanently, with a `throttle` after each. Tables whose inspection was late come last."""
        records = self._parts.table_records.all().values()
        failed = {record.table_id: record for record in records if _error_to_inspect(record) is not None}
        for table_id in self._inspected.keys() - failed.keys():
            self._inspected.pop(table_id, None)
        for table_id in self._retried.keys() - {record.table_id for record in records if record.error is not None}:
            self._retried.pop(table_id, None)
        self._late.intersection_update(failed)
        for record in sorted(failed.values(), key=lambda record: record.table_id in self._late):
            late = record.table_id in self._late
            self._wait_for_inspection(record, min(patience_ms, LATE_PATIENCE_MS) if late else patience_ms)
            if not throttle():
                return

    def close(self) -> None:
        """Starts no more inspections. A running one stores no result."""
        self._closed = True
        self._threads.close()

    def _wait_for_inspection(self, record: TableRecord, patience_ms: int) -> None:
        try:
            self._threads.wait(patience_ms, LakeProbe(record.path, record.table_id, partial(self._inspect_quietly, record)))
        except errors.LakewardError as error:
            self._late.add(record.table_id)
            _log.debug("a failed table was not inspected yet", table=str(record.path), error=error.message)
        else:
            self._late.discard(record.table_id)

    def _inspect_quietly(self, record: TableRecord, report_side: SideReporter) -> None:
        try:
            self._inspect(record, report_side)
        except errors.LakewardError as error:
            _log.info("a failed table could not be inspected", table=str(record.path), error_class=error.error_class, error=error.message)
        except Exception:  # possibly no caller waits for it any more
            _log.exception("the inspection of a failed table failed unexpectedly", table=str(record.path))

    def _inspect(self, record: TableRecord, report_side: SideReporter) -> None:
        report_side(Side.CLUSTER)
        info = self._parts.cluster.table(record.path)
        if info.table_id != record.table_id:
            return  # the table was recreated: discovery removes this record
        report_side(Side.EITHER)
        try:
            inspection = self._reconciler.inspect(info)
            drift = self._reconciler.drift(inspection)
        except errors.PermanentTieringError:
            self._record(record, _NOTHING_HELPS)
            return
        problem = inspection.problem or drift
        if problem is None and inspection.passes:
            self._record(record, _REPAIRED)
            return
        # Part of what was seen: after a change of a property, the same difference may have another repair.
        drift_repair = None if drift is None else repair_of(drift)
        logs = {key: log.log_start for key, log in inspection.situation.log.items()}
        key = (str(problem), str(drift), drift_repair, _identity_of(inspection.view), logs)
        before = self._inspected.get(record.table_id)
        if before is not None and before[0] == key:
            self._record(record, before[1])
            return
        repair, choices = self._repair_without_rows(inspection, drift), dict[ReconcileAction, int | None]()
        if repair is None:
            choices = self._choices(inspection)
            repair = self._repair_among(inspection, drift, choices)
        if _UNREADABLE not in choices.values():
            self._inspected[record.table_id] = key, repair
        elif record.error is not None and record.error.way_out is not None:
            return  # an earlier inspection read more
        self._record(record, repair)

    def _choices(self, inspection: Inspection) -> dict[ReconcileAction, int | None]:
        """Returns how many records each possible action leaves out, in the order of preference. It reads rows."""
        with suppress(errors.LakewardError):  # each action reads them again
            inspection = self._decider.with_rows(inspection)
        actions = _AFTER_FOREIGN_TIERING if isinstance(inspection.problem, _FOREIGN_TIERING_ERRORS) else _OTHERWISE
        return {action: self._left_out(action, inspection) for action in (*actions, ReconcileAction.ACCEPT)}

    def _repair_without_rows(self, inspection: Inspection, drift: errors.SchemaDrift | None) -> RepairOption | None:
        """Returns the repair; None if it depends on what the actions leave out."""
        problem = inspection.problem
        if _is_of_another_cluster(inspection):
            return _NOTHING_HELPS
        if isinstance(problem, errors.TableMismatch | errors.UntrackedLakeTable):
            return self._rename_repair(inspection, "")  # it has no rows of this table
        if _lost_by_cluster(inspection):
            return _NOTHING_HELPS
        return self._drift_repair(inspection, drift, "") if problem is None and drift is not None else None

    def _repair_among(
        self, inspection: Inspection, drift: errors.SchemaDrift | None, choices: Mapping[ReconcileAction, int | None]
    ) -> RepairOption:
        lossy = {action: left_out for action, left_out in choices.items() if left_out not in (0, _REFUSED, _UNREADABLE)}
        text = " ".join(_choice(inspection, action, left_out) for action, left_out in lossy.items())
        lossless = next((action for action, left_out in choices.items() if left_out == 0 and action is not ReconcileAction.ACCEPT), None)
        if lossless is not None and drift is not None:
            return self._drift_repair(inspection, drift, text)  # the action is refused until the drift is repaired
        if lossless is not None:
            return RepairOption(RepairKind(lossless.value), choices=text)
        snapshot = _former_head(inspection)
        return (
            self._with_new_table(inspection, text)
            if snapshot is None
            else RepairOption(RepairKind.SET_SNAPSHOT, value=snapshot, choices=text)
        )

    def _left_out(self, action: ReconcileAction, inspection: Inspection) -> int | None:
        if action is ReconcileAction.ACCEPT and is_empty(inspection.view):
            return _REFUSED  # it would leave out everything, so it is never suggested
        try:
            return self._decider.decide(action, inspection).records_left_out
        except errors.TransientTieringError:
            return _UNREADABLE
        except errors.LakewardError:
            return _REFUSED

    def _with_new_table(self, inspection: Inspection, choices: str) -> RepairOption:
        """Returns a new lake table instead of this one, if KV snapshots and log still hold everything that was ever written."""
        situation = inspection.situation
        absent = replace(situation, survey=LakeSurvey(LakeView(inspection.info.path, "", None, None, None, {}), None))
        if inspection.view is None or situation.expected.shared is not None:
            return RepairOption(RepairKind.NONE, choices=choices)
        try:
            ranges = retiered(absent, RowOffsets())
        except errors.LakewardError:
            return RepairOption(RepairKind.NONE, choices=choices)
        left_out = records_left_out(absent, ReconcileAction.RETIER, ranges, RowOffsets())
        if left_out != 0 or not self._has_all_keys(inspection):
            return RepairOption(RepairKind.NONE, choices=choices)
        archived = self._decider.archived_rows(inspection, inspection.view)
        if archived == 0:
            return self._rename_repair(inspection, choices)
        number = "rows (the number is unknown)" if archived is None else f"up to {counted(archived, 'row')}"
        text = (
            f"{new_table_hint(inspection.info.path)} The new lake table would lack {number} of dropped partitions: neither the cluster nor "
            "its log has them any more, and only the renamed lake table keeps them."
        )
        return RepairOption(RepairKind.NONE, choices=f"{choices} {text}".strip())

    def _has_all_keys(self, inspection: Inspection) -> bool:
        """Returns whether a KV snapshot covers every bucket of a primary-key table whose log was cut."""
        situation = inspection.situation
        cut = {bucket: bounds.log_start for bucket, bounds in situation.log.items() if bounds.log_start > 0}
        if situation.table_type is TableType.LOG or not cut:
            return True
        snapshots = self._parts.cluster.kv_snapshots(inspection.info)
        return all(bucket in snapshots and snapshots[bucket].log_offset >= start for bucket, start in cut.items())

    def _drift_repair(self, inspection: Inspection, drift: errors.SchemaDrift, choices: str) -> RepairOption:
        """Returns the repair that makes the lake table fit again without losing a value."""
        repair = repair_of(drift)
        if repair is None or repair.kind is not RepairKind.DROP_COLUMN:
            return self._with_new_table(inspection, choices) if repair is None else replace(repair, choices=choices)
        lake = self._parts.lakes.of(inspection.record.lake_format)
        column = repair.column or ""
        values = lake.values_of(inspection.info.path, column) if isinstance(lake, ColumnValues) else None
        if values == 0:
            return replace(repair, choices=choices)
        statement = repair_statement(inspection.record, repair, CatalogNames(lake=LAKE_CATALOG))
        of_rows = "in rows (the number is unknown)" if values is None else f"of {counted(values, 'row')}"
        return self._with_new_table(inspection, f"{choices} {statement} loses the values {of_rows}.".strip())

    def _rename_repair(self, inspection: Inspection, choices: str) -> RepairOption:
        """Returns the renaming of the lake table: a statement, or a hint to do it by hand where Spark has no statement for it."""
        lake, path = self._parts.lakes.of(inspection.record.lake_format), inspection.info.path
        if isinstance(lake, DriftCheck) and isinstance(lake, LakeMaintenance) and lake.renames_tables:
            return RepairOption(RepairKind.RENAME_TABLE, value=_free_name(inspection.record, lake), choices=choices)
        error, advice = inspection.record.error, new_table_hint(path)
        is_said = error is not None and any(hint in error.hint for hint in (advice, keeping_table_hint(path)))
        return RepairOption(RepairKind.NONE, choices=choices if is_said else f"Or: {advice} {choices}".strip())

    def _record(self, inspected: TableRecord, repair: RepairOption) -> None:
        records = self._parts.table_records
        with records.changing():
            record = records.get(inspected.table_id)
            error = None if record is None else _error_to_inspect(record)
            if self._closed or record is None or error is None or error != inspected.error:
                return
            retried = self._retried[record.table_id]
            if repair == _REPAIRED and (error.way_out not in (None, _REPAIRED) or error.error_class not in retried):
                retried.add(error.error_class)
                records.put(reconciliation.lake_repaired(records.context(), record))
            elif repair != error.way_out:
                records.put(Change(record).update(error=replace(error, way_out=repair)))


_REFUSED = -1
"""The number of left-out records of an action that is refused."""

_UNREADABLE = -2
"""The number of left-out records if a lake or cluster does not answer. The next inspection tries again."""


def _error_to_inspect(record: TableRecord) -> ErrorInfo | None:
    error = failed_for_good(record)
    return error if error is not None and needs_inspection(error) else None


def _free_name(record: TableRecord, lake: LakeMaintenance) -> str:
    """Returns a name that no table of the lake has."""
    names = (former_name(record, number) for number in count(1))
    return next(name for name in names if not _is_taken(lake, TablePath(record.database_name, name)))


def _is_taken(lake: LakeMaintenance, path: TablePath) -> bool:
    try:
        return lake.survey(path) is not None
    except errors.PermanentTieringError:  # a damaged or foreign table has the name
        return True


def _identity_of(view: LakeView | None) -> InspectionKey | None:
    return None if view is None else (view.table_uuid, view.head_identity, view.tiered)


def _is_of_another_cluster(inspection: Inspection) -> bool:
    """Returns whether another cluster's service may still tier to the lake table. Then no statement that moves it is suggested."""
    survey = inspection.survey
    marker = None if survey is None else survey.head_marker or survey.newest_marker
    return marker is not None and marker.cluster_id != inspection.situation.expected.cluster_id


def _lost_by_cluster(inspection: Inspection) -> bool:
    """Returns whether the lake was ever tiered beyond the end of the log. No cluster has those records any more."""
    log = inspection.situation.log
    return any(bucket in log and offset > log[bucket].log_end for bucket, offset in inspection.situation.recorded.items())


def _former_head(inspection: Inspection) -> str | None:
    """Returns the snapshot to which a statement should reset the main branch: after a rollback, or before another service's commits.

    For a table whose history expired, it is the newest tiering commit, which the tag keeps. That undoes a compaction, and loses nothing
    that was tiered.
    """
    view, problem = inspection.view, inspection.problem
    if view is None or not view.is_head_set_in_spark:
        return None
    if isinstance(problem, errors.ForeignTieringUnproved):
        return None if "log_lacks" in problem.ids else problem.ids.get("lake_snapshot_id")
    is_alone = inspection.situation.expected.shared is None
    if not isinstance(problem, errors.LakeRolledBack) and not (isinstance(problem, errors.HistoryExpired) and is_alone):
        return None
    snapshot = view.tiered
    rounds = [row for row in view.snapshots.values() if row.round_id is not None]
    newest = max(rounds, key=lambda row: row.sequence_number, default=None)
    return str(snapshot) if snapshot is not None and newest is not None and newest.snapshot_id == snapshot else None


def _choice(inspection: Inspection, action: ReconcileAction, left_out: int | None) -> str:
    records = "records (the number is unknown)" if left_out is None else counted(left_out, "record")
    return f"{reconcile_call(inspection.info.path, action)} leaves {records} out of the lake."
