"""`CALL sys.adopt_table`: compares a lake table that an earlier pipeline wrote with the log, and commits a marker to it.

It runs under the table's lock, and commits as `reconcile_lake` does (`reconciler`): an epoch that fences older requests, then one
compare-and-set on uuid and head of the compared lake table. If the lake table has another name, it is renamed between the two.

A crash at any point is safe. Before the rename, only the epoch has changed. After the rename, no round builds on the lake table, because it
has snapshots and no marker; the same CALL again finds it by the uuid in the ledger. After the commit, the same CALL again only records it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from tiering import crash_points, errors
from tiering.access.privileges import Privilege
from tiering.cluster.shared_lake import log_sums
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions import reconciliation
from tiering.coordinator.decisions.reconciliation import ADOPT_TABLE, ReconciledCommit
from tiering.coordinator.decisions.records import CommitState, LakeCommitRecord, to_text
from tiering.coordinator.lake_repair.adoption import (
    Adoption,
    adoption,
    check_in_log,
    check_proved,
    check_untiered,
    offsets_at,
    stated_offsets,
)
from tiering.coordinator.lake_repair.decision import Decision, Inspection, partitions_of
from tiering.coordinator.lake_repair.reconciler import LAKE_CATALOG, Reconciler, repair_hint
from tiering.lake.base import Lake, LakeView
from tiering.lake.file_lists import ReadableLake
from tiering.lake.layouts import layout_of
from tiering.lake.maintenance import AdoptableRows, DriftCheck, LakeMaintenance, LakeSurvey, PartitionRows, TableRename
from tiering.lake.rules.empty_ranges import skipped_records
from tiering.lake.rules.hints import rewrite_call
from tiering.lake.table_options import PARTITION
from tiering.model.names import parse_table_path
from tiering.model.tables import BucketKey, TableInfo, TablePath, TableType
from tiering.procedures.adopt_table import AdoptTable, AdoptTableResult

ADOPTED, ALREADY, WOULD = "adopted", "already_adopted", "would_adopt"

COPY_HINT = (
    "Copy its rows with the lake's SQL into a new table whose columns and partitions are those of the source (CREATE TABLE ... AS SELECT), "
    "and adopt that one."
)


class Adopter:
    """Adopts lake tables. It changes a table under its lock."""

    def __init__(self, parts: CallParts) -> None:
        self._parts = parts
        self._reconciler = Reconciler(parts)

    def adopt(self, request: AdoptTable) -> AdoptTableResult:
        """Compares and commits, or returns the answer of an earlier call with this key."""
        operations = self._parts.operations
        if (earlier_answer := operations.answer(request)) is not None:
            return earlier_answer
        info = self._parts.cluster.table(request.path)
        with self._parts.table_lock(info.table_id):
            if (earlier_answer := operations.answer(request)) is not None:
                return earlier_answer  # a concurrent call with the same key had the lock before
            result = self._reconciler.left_open(request, info, partial(_adopted, request)) or self._decide(request, info)
        if not request.dry_run:
            self._parts.observer.observe_soon(info.table_id)
        return result

    def _decide(self, request: AdoptTable, info: TableInfo) -> AdoptTableResult:
        lake_path = parse_table_path(request.lake_table, catalog="")
        inspection = self._reconciler.inspect(info)
        reconciliation.check_no_open_grant(inspection.record)
        if (row := self._landed(inspection)) is not None:
            self._check_same(inspection, lake_path, row)
            return self._already(request, inspection, row)
        _check_kind(inspection)
        view = check_untiered(self._survey(inspection, lake_path), info.path)
        self._check_fit(inspection, view)
        offsets = self._offsets(request, inspection)
        result = self._compared(inspection, view, offsets)
        check_proved(result, view.path, accept_unproved=request.accept_unproved)
        texts = to_text(offsets)
        if request.dry_run:
            return AdoptTableResult(request.path, request.lake_table, WOULD, None, None, texts, result.rows, result.unproved)
        answer = partial(_adopted, request, rows=result.rows, unproved=result.unproved)
        return self._reconciler.carry_out(
            request,
            ADOPT_TABLE,
            _with_view(inspection, view),
            Decision(result.ranges, 0, adopted=result.proofs),
            answer,
            partial(self._renamed, info),
        )

    def _survey(self, inspection: Inspection, lake_path: TablePath) -> LakeSurvey:
        """Returns the survey of the named lake table, which has the source's name already if an earlier call renamed it."""
        path, own = inspection.info.path, inspection.survey
        if lake_path == path:
            named = own
        else:
            self._check_named(lake_path)
            named = self._reconciler.decider.maintenance(inspection.record).survey(lake_path)
            if named is None and own is not None and self._is_claimed(inspection, own.view.table_uuid):
                return own
        if named is None:
            raise errors.CannotReconcile(f"there is no lake table {lake_path}", table_path=lake_path)
        if named is not own and own is not None:
            raise errors.CannotReconcile(
                f"{path} has a lake table of its own, so {lake_path} cannot take its name",
                hint=f"Drop or rename the lake table {path} in the lake's catalog, then CALL it again. A paused table creates none.",
                table_path=path,
            )
        return named

    def _check_same(self, inspection: Inspection, lake_path: TablePath, row: LakeCommitRecord) -> None:
        """Raises CannotReconcile if the named lake table is another one than the one that was adopted, which has the source's name now."""
        path = inspection.info.path
        if lake_path == path:
            return
        self._check_named(lake_path)
        named = self._reconciler.decider.maintenance(inspection.record).survey(lake_path)
        if named is not None and named.view.table_uuid != row.lake_table_uuid:
            raise errors.CannotReconcile(
                f"{path} adopted another lake table before, and no row of the lake table {lake_path}",
                hint="CALL sys.backfill_table copies rows that are older than the log.",
                table_path=path,
            )

    def _check_named(self, lake_path: TablePath) -> None:
        """Checks that the caller may take the lake table of another name, and that no source table tiers to it."""
        self._parts.grants.current().require_new(Privilege.OPERATE, lake_path)
        with suppress(errors.UnknownTable, errors.UnknownDatabase):
            if self._parts.cluster.table(lake_path).lake_enabled:
                raise errors.CannotReconcile(f"{lake_path} is the lake table of the table {lake_path}", table_path=lake_path)

    def _is_claimed(self, inspection: Inspection, uuid: str) -> bool:
        return any(row.lake_table_uuid == uuid for row in self._rows(inspection))

    def _rows(self, inspection: Inspection) -> list[LakeCommitRecord]:
        commits = self._parts.table_records.store.commits(inspection.info.table_id)
        return [row for row in commits if row.reconcile_action == ADOPT_TABLE]

    def _landed(self, inspection: Inspection) -> LakeCommitRecord | None:
        """Returns the ledger's row of an adoption that is in the present lake table."""
        view = inspection.view
        rounds = set() if view is None else {snapshot.round_id for snapshot in view.snapshots.values()}
        return next(
            (
                row
                for row in self._rows(inspection)
                if view is not None
                and row.lake_table_uuid == view.table_uuid
                and (row.state is CommitState.RECONCILED or row.round_id in rounds)
            ),
            None,
        )

    def _already(self, request: AdoptTable, inspection: Inspection, row: LakeCommitRecord) -> AdoptTableResult:
        marker, view = inspection.marker, inspection.view
        if marker is not None and marker.round_id == row.round_id and row.state is not CommitState.RECONCILED and not request.dry_run:
            return self._reconciler.settle_own(request, inspection, row, partial(_adopted, request))
        tiered = None if view is None else view.tiered
        offsets = {} if marker is None else to_text(marker.ends)
        result = AdoptTableResult(request.path, request.lake_table, ALREADY, row.round_id, tiered, offsets, None, None)
        return result if request.dry_run else self._reconciler.keep_answer(request, inspection.info, result)

    def _check_fit(self, inspection: Inspection, view: LakeView) -> None:
        """Raises CannotReconcile if the source's rows do not fit into the lake table, or its rows have other columns."""
        lake = self._parts.lakes.of(inspection.record.lake_format)
        if isinstance(lake, ReadableLake) and layout_of(lake.columns(view).names).has_row_offsets:
            raise errors.CannotReconcile(
                f"the lake table {view.path} has the columns of a tiering service, such as __offset",
                hint="Copy its other columns with the lake's SQL into a new table (CREATE TABLE ... AS SELECT), and adopt that one.",
                table_path=view.path,
            )
        self._check_partitions(lake, inspection, view)
        if isinstance(lake, DriftCheck):
            try:
                lake.check_fit(replace(inspection.info, path=view.path))
            except errors.SchemaDrift as drift:
                raise _misfit(inspection, view, drift) from drift
        may_rename = isinstance(lake, TableRename) and isinstance(lake, DriftCheck) and lake.renames_tables
        if view.path != inspection.info.path and not may_rename:
            raise errors.CannotReconcile(
                f"the lake's catalog cannot rename {view.path} to {inspection.info.path}",
                hint=f"Copy its rows with the lake's SQL into a lake table {inspection.info.path}, then adopt that one.",
                table_path=view.path,
            )

    def _check_partitions(self, lake: Lake, inspection: Inspection, view: LakeView) -> None:
        """Raises CannotReconcile if rounds would not keep the partition fields of the lake table."""
        named = replace(inspection.info, path=view.path)
        fields = lake.unnamed_partitions(named, view) if isinstance(lake, AdoptableRows) else ()
        if fields:
            text = ", ".join(fields)
            raise errors.CannotReconcile(
                f"the lake table {view.path} is partitioned by {text}, which is not the partition of {inspection.info.path}; nothing was "
                "adopted",
                hint=f"First CALL sys.set_table_option('{inspection.info.path}', '{PARTITION.name}', '{text}'), then this CALL again. "
                f"Or: {COPY_HINT}",
                table_path=view.path,
            )

    def _offsets(self, request: AdoptTable, inspection: Inspection) -> dict[BucketKey, int]:
        log, info = inspection.situation.log, inspection.info
        if request.offsets is not None and request.timestamp is None:
            offsets = stated_offsets(request.offsets, log)
            check_in_log(offsets, log, info.path)
            return offsets
        if request.timestamp is None or request.offsets is not None:
            raise errors.InvalidArgument("sys.adopt_table takes either offsets or a timestamp")
        return offsets_at(request.timestamp, log, partial(self._parts.cluster.oldest_timestamps, info), info.path)

    def _compared(self, inspection: Inspection, view: LakeView, offsets: dict[BucketKey, int]) -> Adoption:
        """Compares the live rows with the log. Raises CannotReconcile for a difference, and for files that cannot be read."""
        lake, partitions = self._parts.lakes.of(inspection.record.lake_format), partitions_of(inspection)
        if not isinstance(lake, AdoptableRows):
            raise errors.CannotReconcile(f"rows of the lake format {inspection.record.lake_format} cannot be compared by this version")
        named = replace(inspection.info, path=view.path)
        try:
            rows = lake.adoptable_row_sums(named, view, partitions)
        except errors.SchemaDrift as drift:
            is_iceberg = inspection.record.lake_format == "iceberg"
            hint = f"Rewrite its files first: {rewrite_call(view.path, LAKE_CATALOG)}" if is_iceberg else COPY_HINT
            raise errors.CannotReconcile(f"{drift.message}; nothing was adopted", hint=hint, table_path=view.path) from drift
        skipped = skipped_records(inspection.situation)
        sums = log_sums(self._parts.cluster, inspection.info, lambda: skipped)
        result = adoption(view.path, inspection.situation.log, offsets, rows, sums)
        if inspection.info.partition_keys and isinstance(lake, PartitionRows):
            others = {name: count for name, count in lake.partition_rows(named, view).items() if name not in partitions}
            result.rows += sum(others.values())
            result.unproved += sum(others.values())
        return result

    def _renamed(self, info: TableInfo, view: LakeView) -> LakeView:
        """Renames the lake table to the source's name, if it has another one. Returns the view of the same snapshot under that name."""
        lake = self._parts.lakes.of(info.lake_format)
        if view.path == info.path:
            return view
        assert isinstance(lake, TableRename)
        assert isinstance(lake, LakeMaintenance)
        lake.rename_table(view.path, info.path)
        crash_points.reach(crash_points.ADOPT_RENAMED)
        again = lake.survey(info.path)
        if again is None or (again.view.table_uuid, again.view.head_identity) != (view.table_uuid, view.head_identity):
            raise errors.CommitOutcomeUnknown(
                f"another program changed the lake table {info.path} while it was adopted: nothing was committed to it",
                hint="CALL sys.adopt_table again: it reads the lake again.",
                table_path=info.path,
            )
        return again.view


def _adopted(
    request: AdoptTable,
    row: LakeCommitRecord,
    in_lake: ReconciledCommit,
    records_removed: int | None,
    rows: int | None = None,
    unproved: int | None = None,
) -> AdoptTableResult:
    return AdoptTableResult(request.path, request.lake_table, ADOPTED, row.round_id, in_lake.snapshot_id, row.offsets, rows, unproved)


def _with_view(inspection: Inspection, view: LakeView) -> Inspection:
    """Returns `inspection` with the lake table of `view`, which may have another name yet."""
    survey = LakeSurvey(view, None)
    return replace(inspection, survey=survey, situation=replace(inspection.situation, survey=survey))


def _check_kind(inspection: Inspection) -> None:
    """Raises CannotReconcile for tables whose rows this version cannot adopt."""
    info, expected = inspection.info, inspection.situation.expected
    if info.table_type is TableType.PRIMARY_KEY:
        raise errors.CannotReconcile(
            f"{info.path} is a primary-key table: only log tables can be adopted",
            hint="Let Lakeward tier it into a new lake table, which has every key of the table.",
            table_path=info.path,
        )
    if expected.shared is not None:
        raise errors.CannotReconcile(
            f"another tiering service works on the cluster of {info.path}, and may tier to the lake table meanwhile",
            hint="Run Lakeward as the only tiering service (--fluss-mode exclusive).",
            table_path=info.path,
        )
    if expected.was_tiered:
        raise errors.CannotReconcile(
            f"{info.path} was tiered to a lake table before, so its former rows are in the log and there",
            hint="Copy the rows of the other lake table with the lake's SQL, for example INSERT INTO ... SELECT.",
            table_path=info.path,
        )


def _misfit(inspection: Inspection, view: LakeView, drift: errors.SchemaDrift) -> errors.CannotReconcile:
    """Returns the refusal of a lake table into which the source's rows do not fit, with the statement that repairs it."""
    named = replace(inspection.record, database_name=view.path.database_name, table_name=view.path.table_name)
    hint = repair_hint(named, drift) or COPY_HINT
    return errors.CannotReconcile(f"{drift.message}; nothing was adopted", hint=hint, **drift.ids)
