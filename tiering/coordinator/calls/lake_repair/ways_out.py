"""Looks at the lake tables of tables that failed for good: which statement helps, and whether somebody mended what was wrong.

What it finds stands with the table's error (`RepairOption`), for `decisions.next_action`. A reconciliation is named only if, as lake and
log are now, it leaves no record out; the others stand in the hint with their number. A table whose lake table is whole, at the first look
or at a later one, is tried again, as after a change of the source table; if it fails again with such an error, a statement is named.

Looks take no lock: a call that comes between meets the record as it is, and a look at what is over by then is dropped. A pass waits for
each only so long (`lake_looks`): one that goes on behind a catalog that hangs notes what it finds by itself.
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
from tiering.coordinator.calls.effects import CallParts
from tiering.coordinator.calls.lake_repair.decision import Inspection
from tiering.coordinator.calls.lake_repair.reconcile_lake import LAKE_CATALOG, Reconciler
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
from tiering.coordinator.observing.lake_looks import Asking, LakeLook, LakeLooks, Side
from tiering.counts import counted
from tiering.lake.base import LakeView
from tiering.lake.maintenance import ColumnValues, DriftCheck, LakeMaintenance, LakeSurvey
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.hints import is_empty, keeping_table_hint, new_table_hint, reconcile_call
from tiering.lake.rules.reconcile import ReconcileAction, records_left_out, retiered
from tiering.model.tables import TablePath, TableType
from tiering.pace import Rest, no_rest

_log = structlog.get_logger(__name__)

_MENDED = RepairOption(RepairKind.RETRY)
_NOTHING_HELPS = RepairOption(RepairKind.NONE)
_SERVICES = (errors.ForeignTiering, errors.ForeignTieringOverlap, errors.ForeignTieringGap, errors.ForeignTieringUnproved)
_AFTER_SERVICES = (ReconcileAction.ADOPT, ReconcileAction.DEDUPLICATE, ReconcileAction.RETIER)
_ELSE = (ReconcileAction.RETIER, ReconcileAction.DEDUPLICATE, ReconcileAction.ADOPT)

THREADS = 32
"""Looks that may hang, or take long, before those at other tables have to wait for one of them."""

PATIENCE_MS = 200
"""How long a pass waits for a look, as most take: what comes later is noted, too."""

LATE_PATIENCE_MS = 50
"""How long it waits for one at a table whose latest look did not end in time: long enough to begin."""

Sight = tuple[object, ...]
"""What a look depends on: seen again, the result is the same."""


class WaysOut:
    """`look` is for one thread at a time. Looks have threads of their own: of one table there is never more than one."""

    def __init__(self, parts: CallParts) -> None:
        self._parts = parts
        self._reconciler = Reconciler(parts)
        self._decider = self._reconciler.decider
        self._threads = LakeLooks(THREADS, "way-out")
        self._sights: dict[int, tuple[Sight, RepairOption]] = {}
        self._tried_again = defaultdict[int, set[str]](set)
        """By table, the classes of errors after which it was tried again since it succeeded last."""
        self._late: set[int] = set()
        self._closed = False

    def look(self, rest: Rest = no_rest, patience_ms: int = PATIENCE_MS) -> None:
        """Looks at every table that failed for good, with a `rest` after each. Those that were late before come last."""
        records = self._parts.table_records.all().values()
        failed = {record.table_id: record for record in records if _looked_at(record) is not None}
        for table_id in self._sights.keys() - failed.keys():
            self._sights.pop(table_id, None)
        for table_id in self._tried_again.keys() - {record.table_id for record in records if record.error is not None}:
            self._tried_again.pop(table_id, None)
        self._late.intersection_update(failed)
        for record in sorted(failed.values(), key=lambda record: record.table_id in self._late):
            late = record.table_id in self._late
            self._wait_for_look(record, min(patience_ms, LATE_PATIENCE_MS) if late else patience_ms)
            if not rest():
                return

    def close(self) -> None:
        """Begins no more looks; one that goes on notes nothing."""
        self._closed = True
        self._threads.close()

    def _wait_for_look(self, record: TableRecord, patience_ms: int) -> None:
        try:
            self._threads.wait(patience_ms, LakeLook(record.path, record.table_id, partial(self._look_quietly, record)))
        except errors.LakewardError as error:
            self._late.add(record.table_id)
            _log.debug("no look at a failed table yet", table=str(record.path), error=error.message)
        else:
            self._late.discard(record.table_id)

    def _look_quietly(self, record: TableRecord, asking: Asking) -> None:
        try:
            self._look_at(record, asking)
        except errors.LakewardError as error:
            _log.info("no look at a failed table", table=str(record.path), error_class=error.error_class, error=error.message)
        except Exception:  # nobody may wait for it any more
            _log.exception("the look at a failed table failed unexpectedly", table=str(record.path))

    def _look_at(self, record: TableRecord, asking: Asking) -> None:
        asking(Side.CLUSTER)
        info = self._parts.cluster.table(record.path)
        if info.table_id != record.table_id:
            return  # made anew: discovery removes this one
        asking(Side.EITHER)
        try:
            inspection = self._reconciler.inspect(info)
            drift = self._reconciler.drift(inspection)
        except errors.PermanentTieringError:
            self._record(record, _NOTHING_HELPS)
            return
        problem = inspection.problem or drift
        if problem is None and inspection.passes:
            self._record(record, _MENDED)
            return
        mend = None if drift is None else repair_of(drift)  # one difference may have another mend, once a property was changed
        logs = {key: log.log_start for key, log in inspection.situation.log.items()}
        sight = (str(problem), str(drift), mend, _seen_of(inspection.view), logs)
        before = self._sights.get(record.table_id)
        if before is not None and before[0] == sight:
            self._record(record, before[1])
            return
        way_out, choices = self._way_out_without_rows(inspection, drift), dict[ReconcileAction, int | None]()
        if way_out is None:
            choices = self._choices(inspection)
            way_out = self._way_out_among(inspection, drift, choices)
        if _UNREADABLE not in choices.values():
            self._sights[record.table_id] = sight, way_out
        elif record.error is not None and record.error.way_out is not None:
            return  # an earlier look saw more
        self._record(record, way_out)

    def _choices(self, inspection: Inspection) -> dict[ReconcileAction, int | None]:
        """What each action that may be named leaves out, in the order in which they are preferred. Reads rows."""
        with suppress(errors.LakewardError):  # each action looks again
            inspection = self._decider.with_rows(inspection)
        actions = _AFTER_SERVICES if isinstance(inspection.problem, _SERVICES) else _ELSE
        return {action: self._left_out(action, inspection) for action in (*actions, ReconcileAction.ACCEPT)}

    def _way_out_without_rows(self, inspection: Inspection, drift: errors.SchemaDrift | None) -> RepairOption | None:
        """None where it depends on what the actions leave out."""
        problem = inspection.problem
        if _is_of_another_cluster(inspection):
            return _NOTHING_HELPS
        if isinstance(problem, errors.TableMismatch | errors.UntrackedLakeTable):
            return self._renaming(inspection, "")  # none of its rows are this table's
        if _lost_by_cluster(inspection):
            return _NOTHING_HELPS
        return self._mending(inspection, drift, "") if problem is None and drift is not None else None

    def _way_out_among(
        self, inspection: Inspection, drift: errors.SchemaDrift | None, choices: Mapping[ReconcileAction, int | None]
    ) -> RepairOption:
        lossy = {action: left_out for action, left_out in choices.items() if left_out not in (0, _REFUSED, _UNREADABLE)}
        text = " ".join(_choice(inspection, action, left_out) for action, left_out in lossy.items())
        lossless = next((action for action, left_out in choices.items() if left_out == 0 and action is not ReconcileAction.ACCEPT), None)
        if lossless is not None and drift is not None:
            return self._mending(inspection, drift, text)  # until then it is refused
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
            return _REFUSED  # it would leave out everything: never named
        try:
            return self._decider.decide(action, inspection).records_left_out
        except errors.TransientTieringError:
            return _UNREADABLE
        except errors.LakewardError:
            return _REFUSED

    def _with_new_table(self, inspection: Inspection, choices: str) -> RepairOption:
        """A new lake table in place of this one, if KV snapshots and log still hold all that was ever written."""
        situation = inspection.situation
        absent = replace(situation, survey=LakeSurvey(LakeView(inspection.info.path, "", None, None, None, {}), None))
        if inspection.view is None or situation.known.shared is not None:
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
            return self._renaming(inspection, choices)
        number = "rows, it cannot be told how many," if archived is None else f"up to {counted(archived, 'row')}"
        text = (
            f"{new_table_hint(inspection.info.path)} The new lake table would lack {number} of dropped partitions: neither the cluster nor "
            "its log has them any more, and they stay in the renamed one alone."
        )
        return RepairOption(RepairKind.NONE, choices=f"{choices} {text}".strip())

    def _has_all_keys(self, inspection: Inspection) -> bool:
        """Whether a KV snapshot covers every bucket of a primary-key table whose log was cut."""
        situation = inspection.situation
        cut = {bucket: bounds.log_start for bucket, bounds in situation.log.items() if bounds.log_start > 0}
        if situation.table_type is TableType.LOG or not cut:
            return True
        snapshots = self._parts.cluster.kv_snapshots(inspection.info)
        return all(bucket in snapshots and snapshots[bucket].log_offset >= start for bucket, start in cut.items())

    def _mending(self, inspection: Inspection, drift: errors.SchemaDrift, choices: str) -> RepairOption:
        """What makes the lake table fit again and loses no value."""
        way_out = repair_of(drift)
        if way_out is None or way_out.kind is not RepairKind.DROP_COLUMN:
            return self._with_new_table(inspection, choices) if way_out is None else replace(way_out, choices=choices)
        lake = self._parts.lakes.of(inspection.record.lake_format)
        column = way_out.column or ""
        values = lake.values_of(inspection.info.path, column) if isinstance(lake, ColumnValues) else None
        if values == 0:
            return replace(way_out, choices=choices)
        statement = repair_statement(inspection.record, way_out, CatalogNames(lake=LAKE_CATALOG))
        of_rows = "that it has in rows, it cannot be told how many" if values is None else f"of {counted(values, 'row')}"
        return self._with_new_table(inspection, f"{choices} {statement} loses the values {of_rows}.".strip())

    def _renaming(self, inspection: Inspection, choices: str) -> RepairOption:
        """The lake table gets another name: by a statement, or where Spark has none for it, by hand, as the hint says."""
        lake, path = self._parts.lakes.of(inspection.record.lake_format), inspection.info.path
        if isinstance(lake, DriftCheck) and isinstance(lake, LakeMaintenance) and lake.renames_tables:
            return RepairOption(RepairKind.RENAME_TABLE, value=_free_name(inspection.record, lake), choices=choices)
        error, advice = inspection.record.error, new_table_hint(path)
        is_said = error is not None and any(hint in error.hint for hint in (advice, keeping_table_hint(path)))
        return RepairOption(RepairKind.NONE, choices=choices if is_said else f"Or: {advice} {choices}".strip())

    def _record(self, looked_at: TableRecord, way_out: RepairOption) -> None:
        records = self._parts.table_records
        with records.changing():
            record = records.get(looked_at.table_id)
            error = None if record is None else _looked_at(record)
            if self._closed or record is None or error is None or error != looked_at.error:
                return
            tried_again = self._tried_again[record.table_id]
            if way_out == _MENDED and (error.way_out not in (None, _MENDED) or error.error_class not in tried_again):
                tried_again.add(error.error_class)
                records.put(reconciliation.lake_repaired(records.context(), record))
            elif way_out != error.way_out:
                records.put(Change(record).update(error=replace(error, way_out=way_out)))


_REFUSED = -1
"""Of an action that is refused."""

_UNREADABLE = -2
"""Of one of which a lake or a cluster that does not answer keeps us from telling: the next look asks again."""


def _looked_at(record: TableRecord) -> ErrorInfo | None:
    error = failed_for_good(record)
    return error if error is not None and needs_inspection(error) else None


def _free_name(record: TableRecord, lake: LakeMaintenance) -> str:
    """A name that no table of the lake has."""
    names = (former_name(record, number) for number in count(1))
    return next(name for name in names if not _is_taken(lake, TablePath(record.database_name, name)))


def _is_taken(lake: LakeMaintenance, path: TablePath) -> bool:
    try:
        return lake.survey(path) is not None
    except errors.PermanentTieringError:  # something stands there
        return True


def _seen_of(view: LakeView | None) -> Sight | None:
    return None if view is None else (view.table_uuid, view.head_identity, view.tiered)


def _is_of_another_cluster(inspection: Inspection) -> bool:
    """Whether its owner, whoever that is, may still tier to it: nothing that moves it away is named."""
    survey = inspection.survey
    marker = None if survey is None else survey.head_marker or survey.newest_marker
    return marker is not None and marker.cluster_id != inspection.situation.known.cluster_id


def _lost_by_cluster(inspection: Inspection) -> bool:
    """Whether the lake was ever tiered beyond the end of the log: what lies there no cluster has any more."""
    log = inspection.situation.log
    return any(bucket in log and offset > log[bucket].log_end for bucket, offset in inspection.situation.recorded.items())


def _former_head(inspection: Inspection) -> str | None:
    """The snapshot on which a statement sets the main branch again: of a table that was rolled back, or before what another service
    wrote. Of a table whose history expired it is the newest tiering commit, which the tag keeps: a compaction is then undone, and nothing
    that was tiered is lost."""
    view, problem = inspection.view, inspection.problem
    if view is None or not view.is_head_set_in_spark:
        return None
    if isinstance(problem, errors.ForeignTieringUnproved):
        return None if "log_lacks" in problem.ids else problem.ids.get("lake_snapshot_id")
    is_alone = inspection.situation.known.shared is None
    if not isinstance(problem, errors.LakeRolledBack) and not (isinstance(problem, errors.HistoryExpired) and is_alone):
        return None
    snapshot = view.tiered
    rounds = [row for row in view.snapshots.values() if row.round_id is not None]
    newest = max(rounds, key=lambda row: row.sequence_number, default=None)
    return str(snapshot) if snapshot is not None and newest is not None and newest.snapshot_id == snapshot else None


def _choice(inspection: Inspection, action: ReconcileAction, left_out: int | None) -> str:
    records = "records, it cannot be told how many," if left_out is None else counted(left_out, "record")
    return f"{reconcile_call(inspection.info.path, action)} leaves {records} out of the lake."
