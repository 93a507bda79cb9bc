"""`CALL sys.backfill_table`: copies older rows of another lake table into a log table's lake table, in a commit that moves no offset.

The files are written without a lock, while rounds go on. Then the commit is made under the table's lock, as `reconcile_lake` does: an epoch
that fences a running round, and one compare-and-set on uuid, head and newest tiering commit. Its marker is the one of its base, and lists
the backfill with its source.

A crash at any point is safe. Before the commit, no snapshot names the files. Afterwards the marker names the source's snapshot, so no later
call copies it again, and the same CALL answers with the rows of the first one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from tiering import errors
from tiering.access.privileges import Privilege
from tiering.cluster.registry import EMBEDDED
from tiering.coordinator.call_support.parts import CallParts
from tiering.coordinator.decisions import reconciliation
from tiering.coordinator.decisions.reconciliation import BACKFILL_TABLE, ReconciledCommit
from tiering.coordinator.decisions.records import LakeCommitRecord
from tiering.coordinator.lake_repair.backfill_checks import check_columns, check_other_rows, copied_before, copied_from
from tiering.coordinator.lake_repair.backfill_condition import RowCondition, RowSelection
from tiering.coordinator.lake_repair.backfill_copy import CopiedRows, RowCopier, source_batches, summed
from tiering.coordinator.lake_repair.decision import BackfillFiles, Decision, Inspection
from tiering.coordinator.lake_repair.reconciler import Reconciler
from tiering.lake.base import Lake, LakeView, WriteResult
from tiering.lake.file_lists import FollowingLake, ReadableLake, RowScan
from tiering.lake.layouts import layout_of
from tiering.lake.proof.backfilled_rows import Backfill, ConditionColumn
from tiering.lake.schema.column_ids import proof_columns
from tiering.model.names import parse_table_path
from tiering.model.tables import TableInfo, TablePath, TableType
from tiering.procedures.backfill_table import BackfillTable, BackfillTableResult

DONE, ALREADY, WOULD = "backfilled", "already_backfilled", "would_backfill"


@dataclass(frozen=True)
class _Work:
    """A backfill before its files are written."""

    request: BackfillTable
    info: TableInfo
    lake: Lake
    source: LakeView
    inspection: Inspection
    condition: RowCondition | None
    source_columns: pa.Schema

    @property
    def condition_columns(self) -> tuple[ConditionColumn, ...]:
        return () if self.condition is None else self.condition.columns(self.source_columns)

    @property
    def condition_text(self) -> str | None:
        return None if self.condition is None else self.condition.text

    @property
    def selection(self) -> RowSelection:
        return RowSelection(self.info, self.condition, copied_from(self.target.marker, self.source), self.source_columns)

    @property
    def target(self) -> LakeView:
        view = self.inspection.view
        assert view is not None
        return view


class Backfiller:
    """Copies rows, then commits them under the table's lock."""

    def __init__(self, parts: CallParts) -> None:
        self._parts = parts
        self._reconciler = Reconciler(parts)

    def backfill(self, request: BackfillTable) -> BackfillTableResult:
        """Copies and commits, or returns the answer of an earlier call with this key."""
        if (earlier_answer := self._parts.operations.answer(request)) is not None:
            return earlier_answer
        source_path = parse_table_path(request.source_table, catalog="")
        self._parts.grants.current().require_new(Privilege.SELECT, source_path)
        info = self._parts.cluster.table(request.path)
        work = self._work(request, info, source_path)
        if (backfill := self._copied_before(work)) is not None:
            return self._already(work, backfill)
        reconciliation.check_no_open_grant(work.inspection.record)
        if request.dry_run:
            sums = summed(source_batches(_scan(work.lake), info, work.source, work.selection), _proof_names(work))
            return self._result(work, WOULD, None, None, sums.rows, sums.checksum)
        return self._copy(work)

    def _work(self, request: BackfillTable, info: TableInfo, source_path: TablePath) -> _Work:
        """Reads both lake tables and checks whether rows can be copied at all."""
        lake = self._parts.lakes.of(info.lake_format)
        self._check_kind(info)
        inspection = self._inspect(info)
        if not isinstance(lake, ReadableLake) or not isinstance(lake, RowScan):
            raise _unsupported(
                info, f"rows of the lake format {info.lake_format} cannot be read", "Iceberg and Paimon tables can be backfilled."
            )
        if layout_of(lake.columns(_view(inspection)).names).has_row_offsets:
            raise _unsupported(info, "its lake table has system columns, and copied rows have no offset", "See docs/backfill.md.")
        source = None if source_path == info.path else lake.view(source_path)
        if source is None or source.head is None:
            reason = "it is the table itself" if source_path == info.path else "there is no such table, or it has no snapshot"
            raise errors.InvalidArgument(f"the lake table {source_path} has no rows to copy: {reason}", table_path=source_path)
        columns = lake.columns(source)
        check_columns(info, source_path, columns)
        situation = inspection.situation
        check_other_rows(info, source, _view(inspection).ranges, situation.log, situation.expected.cluster_id)
        condition = None if request.condition is None else RowCondition(request.condition, info)
        return _Work(request, info, lake, source, inspection, condition, columns)

    def _check_kind(self, info: TableInfo) -> None:
        if info.table_type is not TableType.LOG:
            raise _unsupported(info, "it has a primary key, and a copied row could replace a newer one", "Write the rows to the table.")
        if self._parts.table_records.options.cluster_kind != EMBEDDED:
            raise _unsupported(info, "it is a table of a Fluss cluster", "Tables of the embedded cluster can be backfilled.")

    def _inspect(self, info: TableInfo) -> Inspection:
        """Reads the table. Raises CannotReconcile unless a round could build on its lake table."""
        inspection = self._reconciler.inspect(info)
        inspection.check_sound("no rows were copied into it", "CALL sys.backfill_table again")
        if inspection.view is None:
            raise _unsupported(info, "it has no lake table yet", f"CALL sys.tier_table('{info.path}') first.")
        return inspection

    def _copied_before(self, work: _Work) -> Backfill | None:
        return copied_before(work.info, work.target.marker, work.source, work.condition_text, work.condition_columns)

    def _copy(self, work: _Work) -> BackfillTableResult:
        """Writes the files, and commits them."""
        info, parts = work.info, self._parts
        with parts.table_records.changing():
            ids = [parts.table_records.context(work.request.caller).new_round_id for _ in range(2)]
        round_id, nonce = ids
        view = work.lake.ensure_table(info, may_create=False)
        numbers = iter(range(1 << 62))
        factory = work.lake.tiering_factory(replace(info, snapshot_retention=None))
        copier = RowCopier(info, parts.cluster, factory, view.table_uuid, round_id, lambda: f"{nonce[:8]}{next(numbers)}")
        copied = copier.copy(source_batches(_scan(work.lake), info, work.source, work.selection), _proof_names(work))
        try:
            result = self._commit(work, round_id, copied, view.table_uuid)
        except errors.CommitOutcomeUnknown:
            raise
        except BaseException:
            copier.abort()  # deletes nothing once a request was sent
            raise
        if result.round_id != round_id:
            copier.abort()
        parts.observer.observe_soon(info.table_id)
        return result

    def _commit(self, work: _Work, round_id: str, copied: CopiedRows, table_uuid: str) -> BackfillTableResult:
        request, info = work.request, work.info
        with self._parts.table_lock(info.table_id):
            if (earlier_answer := self._parts.operations.answer(request)) is not None:
                return earlier_answer  # a concurrent call with the same key copied the rows before
            earlier = copied_from(work.target.marker, work.source)
            work = replace(work, inspection=self._inspect(info))
            if (backfill := self._copied_before(work)) is not None:
                return self._already(work, backfill)
            if work.target.table_uuid != table_uuid or copied_from(work.target.marker, work.source) != earlier:
                raise errors.CannotReconcile(
                    f"the lake table {info.path} was replaced meanwhile, or another CALL copied rows of {work.source.path} into it",
                    hint="Nothing was copied. CALL sys.backfill_table again.",
                    table_path=info.path,
                )
            source = work.source
            assert source.head_identity is not None
            backfill = Backfill(
                round_id,
                str(source.path),
                source.table_uuid,
                source.head_identity,
                work.condition_text,
                copied.buckets,
                work.condition_columns,
            )
            ranges = work.target.ranges
            ends = {bucket: reached.tiered for bucket, reached in ranges.items()}
            results = tuple(_moving_nothing(result, ends.get(result.bucket, 0)) for result in copied.results)
            decision = Decision(dict(ranges), 0, written=BackfillFiles(backfill, results))
            return self._reconciler.carry_out(request, BACKFILL_TABLE, work.inspection, decision, partial(self._answer, work, backfill))

    def _answer(
        self, work: _Work, backfill: Backfill, row: LakeCommitRecord, in_lake: ReconciledCommit, records_removed: int | None
    ) -> BackfillTableResult:
        sums = backfill.sums
        return self._result(work, DONE, row.round_id, in_lake.snapshot_id, sums.rows, sums.checksum)

    def _already(self, work: _Work, backfill: Backfill) -> BackfillTableResult:
        """Returns and stores the answer for rows that an earlier call copied. Under that call's key it is that call's answer."""
        request, operations = work.request, self._parts.operations
        earlier = operations.earlier_call(request)
        outcome = DONE if earlier is not None and earlier.round_id == backfill.round_id else ALREADY
        sums = backfill.sums
        result = self._result(work, outcome, backfill.round_id, work.target.tiered, sums.rows, sums.checksum)
        if not request.dry_run:
            with self._parts.table_records.changing():
                self._parts.table_records.put(operations=operations.done(request, work.info.table_id, result))
        return result

    def _result(
        self, work: _Work, outcome: str, round_id: str | None, snapshot_id: int | None, rows: int, checksum: int
    ) -> BackfillTableResult:
        source = work.source
        assert source.head_identity is not None
        return BackfillTableResult(
            work.info.path, str(source.path), outcome, round_id, snapshot_id, source.head_identity, rows, f"{checksum:016x}"
        )


def _view(inspection: Inspection) -> LakeView:
    assert inspection.view is not None
    return inspection.view


def _scan(lake: Lake) -> RowScan:
    assert isinstance(lake, RowScan)
    return lake


def _proof_names(work: _Work) -> pa.Schema | None:
    """Returns the names of the source table's columns in checksums; None = their present names."""
    fields = work.lake.source_fields(work.info, work.target) if isinstance(work.lake, FollowingLake) else None
    if fields is None:
        return None
    return proof_columns(pa.schema([fields.columns.field(name) for name in work.info.schema.names]), fields.recorded)


def _moving_nothing(result: WriteResult, reached: int) -> WriteResult:
    """Returns the files of `result` for a commit whose marker counts their rows apart from those of rounds, and moves no offset."""
    return replace(result, starting_offset=reached, reached_offset=reached, records=0, checksum=None, empty=())


def _unsupported(info: TableInfo, why: str, hint: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"{info.path} cannot be backfilled by this version: {why}", hint=hint, table_path=info.path)
