"""What idempotency keys name (DESIGN 5): an operation and, once there is one, its outcome.

A key belongs to the principal who calls: the same text of another principal is another key, and tells nothing of this one. It names one
procedure with its arguments. The row is stored in the same write as the effect, so the
coordinator cannot die between the two: a repeat, also after a restart, finds both or neither. What cannot be one write
(a round, a commit to the lake) stores the row with its round id before anything is sent, and its outcome at the end.
A dry run has no key: it neither starts what an earlier call left open nor is taken for it.
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
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import ErrorInfo, OperationRecord
from tiering.coordinator.memory.sql_pruning import PRINCIPAL_DIGITS
from tiering.coordinator.memory.table_records import TableRecords
from tiering.coordinator.requests import Mutation, ResultT
from tiering.errors import InvalidArgument
from tiering.wire.request_bounds import check_id

_STORED_KEY = re.compile(rf"[0-9a-f]{{{PRINCIPAL_DIGITS}}}/[0-9a-f]{{64}}")
"""A text that is a key as the store has it: sent by a caller, it must not find another principal's row."""

_NO_GOAL: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Decided(Generic[ResultT]):
    """What is to change, of which table, and what is answered."""

    result: ResultT
    changes: tuple[Change, ...] = ()
    table_id: int | None = None


class IdempotentOperations:
    """The operations that the store keeps."""

    def __init__(self, table_records: TableRecords) -> None:
        self._table_records = table_records
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def known(self, request: Mutation[Any]) -> OperationRecord | None:
        """The caller's earlier call with this key; None = a new key, or none.

        Raises InvalidArgument for a key that cannot be, and for one that names something else.
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
        """The operation of the caller with this key; None = there is none. `caller`: as CALLs name who makes them."""
        operation = self._table_records.store.operation(stored_key(acting_principal(caller), key))
        if operation is not None or _STORED_KEY.fullmatch(key):
            return operation
        former = self._table_records.store.operation(key)  # of a version that stored keys as they were sent
        return former if former is not None and former.caller == caller else None

    def answer(self, request: Mutation[ResultT]) -> ResultT | None:
        """What an earlier call with this key was answered; None = it was not, or there was none. Raises as `known`."""
        operation = self.known(request)
        if operation is None or operation.outcome is None:
            return None
        return _adapter(request.result_class).validate_python(operation.outcome)  # type: ignore[no-any-return]

    def once(self, request: Mutation[ResultT], decide: Callable[[], Decided[ResultT]]) -> ResultT:
        """Does what `decide` says, under the records' lock and in one write with the answer; a dry run only answers.

        For what is done when the store has it. `decide` must not block. Raises what it raises, and as `known`.
        """
        with self._table_records.changing():
            if (earlier := self.answer(request)) is not None:
                return earlier
            decided = decide()
            if not request.dry_run:
                self._table_records.put(*decided.changes, operations=self.done(request, decided.table_id, decided.result))
            return decided.result

    def in_turn(self, turn: str, request: Mutation[ResultT], work: Callable[[], ResultT]) -> ResultT:
        """What an earlier call with this key was answered, else what `work` answers. Calls with the same `turn` run one at a time.

        For effects outside the store, which `work` records with `done`: a repeat that comes meanwhile waits for the answer. Raises what
        `work` raises, and as `known`.
        """
        with self._turns[turn]:
            earlier = self.answer(request)
            return work() if earlier is None else earlier

    def begun(
        self, request: Mutation[Any], table_id: int | None, round_id: str | None = None, goal: Mapping[str, Any] = _NO_GOAL
    ) -> list[OperationRecord]:
        """The row to store before or with the effect; none without a key. Of two calls that meet here the first one's goal stands.

        `goal`: fields of an OperationRecord. Call it under the records' lock. Raises as `known`.
        """
        if request.idempotency_key is None or request.dry_run:
            return []
        earlier = self.known(request)
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
        """The row with how it ended. The first outcome stands. Call it under the records' lock."""
        rows = self.begun(request, table_id, round_id, goal)
        if any(row.outcome is not None or row.error is not None for row in rows):
            return []
        if isinstance(outcome, ErrorInfo):
            return [replace(row, error=outcome) for row in rows]
        return [replace(row, outcome=_adapter(request.result_class).dump_python(outcome, mode="json")) for row in rows]


def stored_key(principal: str, key: str) -> str:
    """The name under which the store has the operation of a principal's key; those of one principal begin alike."""
    return f"{_digest(principal)[:PRINCIPAL_DIGITS]}/{_digest(key)}"


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


@cache
def _adapter(result_class: Any) -> TypeAdapter[Any]:
    return TypeAdapter(result_class)
