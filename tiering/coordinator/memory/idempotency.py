"""The operations that idempotency keys name (DESIGN 5), with their outcomes once they have ended.

A key belongs to the calling principal: the same text of another principal is another key, and reveals nothing about this one. It names one
procedure with its arguments. Its row is stored in the same write as the effect, so a coordinator cannot die between the two: a repeat, even
after a restart, finds both or neither. If the effect needs more than one write (a round, a commit to the lake), the row is stored with its
round id before anything is sent, and its outcome at the end. A dry run has no key: it neither resumes an earlier call nor counts as one.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Generic

from pydantic import TypeAdapter

from tiering.access.acting_for import acting_principal
from tiering.access.request_bounds import check_id
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import ErrorInfo, OperationRecord
from tiering.coordinator.memory.sql_history import PRINCIPAL_DIGITS
from tiering.coordinator.memory.table_records import TableRecords
from tiering.errors import InvalidArgument
from tiering.procedures.base import Mutation, ResultT

_STORED_KEY = re.compile(rf"[0-9a-f]{{{PRINCIPAL_DIGITS}}}/[0-9a-f]{{64}}")
"""The form of a key in the store. A caller that sends such a text must not find another principal's row."""

_NO_GOAL: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class DecisionOutcome(Generic[ResultT]):
    """The outcome of a decision: the result for the caller, and the changes of one table."""

    result: ResultT
    changes: tuple[Change, ...] = ()
    table_id: int | None = None


class IdempotentOperations:
    """The stored operations of idempotency keys."""

    def __init__(self, table_records: TableRecords) -> None:
        self._table_records = table_records
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def earlier_call(self, request: Mutation[Any]) -> OperationRecord | None:
        """Returns the caller's earlier call with this key; None if the key is new or missing.

        Raises InvalidArgument for an invalid key, and for a key that names another call.
        """
        key = request.idempotency_key
        if key is None:
            return None
        check_id(key, "idempotency_key")
        operation = None if request.dry_run else self.by_key(key, request.caller)
        if operation is not None and (operation.procedure, dict(operation.arguments)) != (request.procedure, request.arguments):
            raise InvalidArgument(
                f"the idempotency key {key!r} already names {operation.procedure} of {dict(operation.arguments)} by {operation.caller}",
                hint="Use a new key for another call.",
            )
        return operation

    def by_key(self, key: str, caller: str) -> OperationRecord | None:
        """Returns the caller's operation with this key; None if there is none. `caller` has the form in which CALLs name their caller."""
        operation = self._table_records.store.operation(stored_key(acting_principal(caller), key))
        if operation is not None or _STORED_KEY.fullmatch(key):
            return operation
        former = self._table_records.store.operation(key)  # an older version stored keys in the form in which they were sent
        return former if former is not None and former.caller == caller else None

    def answer(self, request: Mutation[ResultT]) -> ResultT | None:
        """Returns the answer to an earlier call with this key; None if it has no answer, or there was none. Raises like `earlier_call`."""
        operation = self.earlier_call(request)
        if operation is None or operation.outcome is None:
            return None
        return _adapter(request.result_class).validate_python(operation.outcome)  # type: ignore[no-any-return]

    def once(self, request: Mutation[ResultT], decide: Callable[[], DecisionOutcome[ResultT]]) -> ResultT:
        """Applies the outcome of `decide` in one write with the answer, under the records' lock. A dry run only answers.

        Use it for effects that are complete once the store has them. `decide` must not block. Raises its errors, and those of
        `earlier_call`.
        """
        with self._table_records.changing():
            if (earlier := self.answer(request)) is not None:
                return earlier
            decided = decide()
            if not request.dry_run:
                self._table_records.put(*decided.changes, operations=self.done(request, decided.table_id, decided.result))
            return decided.result

    def in_turn(self, turn: str, request: Mutation[ResultT], work: Callable[[], ResultT]) -> ResultT:
        """Returns the answer to an earlier call with this key, otherwise the result of `work`. Calls with one `turn` run one at a time.

        Use it for effects outside of the store, which `work` records with `done`. A repeat during the work waits for its answer. Raises the
        errors of `work` and of `earlier_call`.
        """
        with self._turns[turn]:
            earlier = self.answer(request)
            return work() if earlier is None else earlier

    def started_operations(
        self, request: Mutation[Any], table_id: int | None, round_id: str | None = None, goal: Mapping[str, Any] = _NO_GOAL
    ) -> list[OperationRecord]:
        """Returns the row to store before or with the effect; none without a key. If two calls have one key, the first one's goal counts.

        `goal` has fields of an OperationRecord. Call it under the records' lock. Raises like `earlier_call`.
        """
        if request.idempotency_key is None or request.dry_run:
            return []
        earlier = self.earlier_call(request)
        if earlier is not None:
            return [replace(earlier, round_id=round_id or earlier.round_id)]
        operation = OperationRecord(
            idempotency_key=stored_key(acting_principal(request.caller), request.idempotency_key),
            caller=request.caller,
            procedure=request.procedure,
            arguments=request.arguments,
            table_id=table_id,
            started_time=self._table_records.now().wall,
            targets={},
            log_starts={},
            round_id=round_id,
        )
        return [replace(operation, **goal)]

    def done(
        self,
        request: Mutation[ResultT],
        table_id: int | None,
        outcome: ResultT | ErrorInfo,
        round_id: str | None = None,
        goal: Mapping[str, Any] = _NO_GOAL,
    ) -> list[OperationRecord]:
        """Returns the row with the outcome; none if an outcome is stored already. Call it under the records' lock."""
        rows = self.started_operations(request, table_id, round_id, goal)
        if any(row.outcome is not None or row.error is not None for row in rows):
            return []
        if isinstance(outcome, ErrorInfo):
            return [replace(row, error=outcome) for row in rows]
        return [replace(row, outcome=_adapter(request.result_class).dump_python(outcome, mode="json")) for row in rows]


def stored_key(principal: str, key: str) -> str:
    """Returns the stored name of a principal's key. The names of one principal have one prefix."""
    return f"{_digest(principal)[:PRINCIPAL_DIGITS]}/{_digest(key)}"


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


@cache
def _adapter(result_class: Any) -> TypeAdapter[Any]:
    return TypeAdapter(result_class)
