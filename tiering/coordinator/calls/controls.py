"""CALLs whose whole effect is in the coordinator's store: decided under the book's lock, stored in one write with their answer.

Each is a pure decision (`core_call`, `core_reconcile`) about one record, and what is answered afterwards. They block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tiering import errors
from tiering.cluster.base import TableCatalog
from tiering.coordinator.calls.mutations import (
    CancelOutcome,
    CancelResult,
    CancelTiering,
    Mutation,
    PauseResult,
    PauseTiering,
    ResetErrors,
    ResetResult,
    ResumeTiering,
    RetryResult,
    RetryTiering,
)
from tiering.coordinator.decisions import operator_requests, reconciliation
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import TableRecord
from tiering.coordinator.memory.idempotency import Decided, IdempotentOperations
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.observing.discovery import Discovery
from tiering.model.rounds import RoundState
from tiering.model.states import TableState
from tiering.model.tables import TablePath

Result = TypeVar("Result")


class Controls:
    """One method a procedure; each has one effect for one idempotency key, and none for a dry run."""

    def __init__(self, table_records: TableRecords, cluster: TableCatalog, discovery: Discovery, operations: IdempotentOperations) -> None:
        self._table_records = table_records
        self._cluster = cluster
        self._discovery = discovery
        self._operations = operations

    def retry(self, call: RetryTiering) -> RetryResult:
        """`CALL sys.retry_tiering`. Raises UnknownTable, UnknownDatabase."""

        def decide(record: TableRecord) -> tuple[Change, RetryResult]:
            change = reconciliation.retry(self._table_records.context(call.caller), record)
            after = change.record
            assert after.state is not None
            retry_at = after.retry_deadline if after.state is TableState.FAILED else None
            return change, RetryResult(call.path, after.state.value, self._table_records.now().to_wall(retry_at))

        return self._on_table(call, call.path, decide)

    def pause(self, call: PauseTiering) -> PauseResult:
        """`CALL sys.pause_tiering`. Raises UnknownTable, UnknownDatabase, LakeDisabled, InvalidArgument for a time that is over."""
        if call.until is not None and call.until <= self._table_records.now().wall and self._operations.answer(call) is None:
            raise errors.InvalidArgument(f"the pause would have ended already: until is {call.until.isoformat()}")

        def decide(record: TableRecord) -> tuple[Change, PauseResult]:
            change = operator_requests.pause(self._table_records.context(call.caller), record, call.reason, call.until)
            return change, _paused(record, change)

        return self._on_table(call, call.path, decide)

    def resume(self, call: ResumeTiering) -> PauseResult:
        """`CALL sys.resume_tiering`. Raises UnknownTable, UnknownDatabase, LakeDisabled."""

        def decide(record: TableRecord) -> tuple[Change, PauseResult]:
            change = operator_requests.resume(self._table_records.context(call.caller), record, call.reason)
            return change, _paused(record, change)

        return self._on_table(call, call.path, decide)

    def reset_errors(self, call: ResetErrors) -> ResetResult:
        """`CALL sys.reset_errors`. Raises UnknownTable, UnknownDatabase, LakeDisabled."""

        def decide(record: TableRecord) -> tuple[Change, ResetResult]:
            return operator_requests.reset_errors(self._table_records.context(call.caller), record), ResetResult(
                call.path, record.error_count
            )

        return self._on_table(call, call.path, decide)

    def cancel(self, call: CancelTiering) -> CancelResult:
        """`CALL sys.cancel_tiering`. Raises InvalidArgument for a round that no tierer has begun."""
        return self._operations.once(call, lambda: self._cancelled(call))

    def _cancelled(self, call: CancelTiering) -> Decided[CancelResult]:
        record = next((one for one in self._table_records.live() if one.round is not None and one.round.round_id == call.round_id), None)
        found = self._table_records.store.round(call.round_id) if record is None else record.round
        if found is None:
            return Decided(CancelResult(call.round_id, None, CancelOutcome.UNKNOWN))
        if found.state is RoundState.QUEUED:
            raise errors.InvalidArgument(
                f"round {call.round_id} of {found.database_name}.{found.table_name} has not begun",
                hint="CALL sys.pause_tiering keeps a table's rounds from beginning.",
                round_id=call.round_id,
            )
        change = None if record is None else operator_requests.cancel(self._table_records.context(call.caller), record, call.message)
        outcome = CancelOutcome.TOO_LATE if change is None else CancelOutcome.CANCELLED
        return Decided(CancelResult(call.round_id, found.state.value, outcome), () if change is None else (change,), found.table_id)

    def _on_table(self, call: Mutation[Result], path: TablePath, decide: Callable[[TableRecord], tuple[Change, Result]]) -> Result:
        """`decide` about the record of the table that has the path now."""
        if (earlier := self._operations.answer(call)) is not None:
            return earlier  # also of a table that is gone by now, or while the cluster does not answer
        table_id = self._table_id(path)

        def about_it() -> Decided[Result]:
            record = self._table_records.get(table_id)
            if record is None:
                raise errors.UnknownTable(f"{path} is not a lake table any more", table_id=table_id)
            change, result = decide(record)
            return Decided(result, (change,), table_id)

        return self._operations.once(call, about_it)

    def _table_id(self, path: TablePath) -> int:
        """Also of a table made a moment ago."""
        info = self._cluster.table(path)
        if not info.lake_enabled:
            raise errors.LakeDisabled(f"{path} has its lake disabled", table_id=info.table_id)
        if self._table_records.get(info.table_id) is None:
            self._discovery.run()
        return info.table_id


def _paused(before: TableRecord, change: Change) -> PauseResult:
    after = change.record
    assert after.state is not None
    return PauseResult(after.path, before.pause is not None, after.pause is not None, after.state.value)
