"""What idempotency keys name (DESIGN 5): an operation and, once there is one, its outcome. The one place for it.

A key is bound to the caller, the procedure and its arguments. The row is stored in the same write as the effect, so the
coordinator cannot die between the two: a repeat, also after a restart, finds both or neither. What cannot be one write
(a round, a commit to the lake) stores the row with its round id before anything is sent, and its outcome at the end.
A dry run has no key: it neither starts what an earlier call left open nor is taken for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, Generic

from pydantic import TypeAdapter

from tiering.coordinator.calls.mutations import Mutation, ResultT
from tiering.coordinator.decisions.change import Change
from tiering.coordinator.decisions.records import ErrorInfo, OperationRecord
from tiering.coordinator.memory.table_records import TableRecords
from tiering.errors import InvalidArgument
from tiering.wire.request_bounds import check_id

_NO_GOAL: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Decided(Generic[ResultT]):
    """What is to change, of which table, and what is answered."""

    result: ResultT
    changes: tuple[Change, ...] = ()
    table_id: int | None = None


class IdempotentOperations:
    """All of them, in the book's store."""

    def __init__(self, table_records: TableRecords) -> None:
        self._table_records = table_records

    def known(self, asked: Mutation[Any]) -> OperationRecord | None:
        """The earlier call with this key; None = a new key, or none.

        Raises InvalidArgument for a key that cannot be, and for one that names something else.
        """
        key = asked.idempotency_key
        if key is None:
            return None
        check_id(key, "idempotency_key")
        found = None if asked.dry_run else self._table_records.store.operation(key)
        if found is not None and _names(found) != (asked.caller, asked.procedure, asked.arguments):
            raise InvalidArgument(
                f"the idempotency key {key!r} already names {found.procedure} of {dict(found.arguments)} by {found.caller}",
                hint="Use a new key for another call.",
            )
        return found

    def answer(self, asked: Mutation[ResultT]) -> ResultT | None:
        """What an earlier call with this key was answered; None = it was not, or there was none. Raises as `known`."""
        found = self.known(asked)
        if found is None or found.outcome is None:
            return None
        return _adapter(asked.result_class).validate_python(found.outcome)  # type: ignore[no-any-return]

    def once(self, asked: Mutation[ResultT], decide: Callable[[], Decided[ResultT]]) -> ResultT:
        """Does what `decide` says, under the book's lock and in one write with the answer; a dry run only answers.

        For what is done when the store has it. `decide` must not block. Raises what it raises, and as `known`.
        """
        with self._table_records.changing():
            if (earlier := self.answer(asked)) is not None:
                return earlier
            decided = decide()
            if not asked.dry_run:
                self._table_records.put(*decided.changes, operations=self.done(asked, decided.table_id, decided.result))
            return decided.result

    def begun(
        self, asked: Mutation[Any], table_id: int | None, round_id: str | None = None, goal: Mapping[str, Any] = _NO_GOAL
    ) -> list[OperationRecord]:
        """The row to store before or with the effect; none without a key. Of two calls that meet here the first one's goal stands.

        `goal`: fields of an OperationRecord. Call it under the book's lock. Raises as `known`.
        """
        if asked.idempotency_key is None or asked.dry_run:
            return []
        found = self.known(asked)
        if found is not None:
            return [replace(found, round_id=round_id or found.round_id)]
        made = OperationRecord(
            idempotency_key=asked.idempotency_key,
            caller=asked.caller,
            procedure=asked.procedure,
            arguments=asked.arguments,
            table_id=table_id,
            started_time=self._table_records.now().wall,
            targets={},
            log_starts={},
            round_id=round_id,
        )
        return [replace(made, **goal)]

    def done(
        self,
        asked: Mutation[ResultT],
        table_id: int | None,
        outcome: ResultT | ErrorInfo,
        round_id: str | None = None,
        goal: Mapping[str, Any] = _NO_GOAL,
    ) -> list[OperationRecord]:
        """The row with how it ended. The first outcome stands. Call it under the book's lock."""
        rows = self.begun(asked, table_id, round_id, goal)
        if any(row.outcome is not None or row.error is not None for row in rows):
            return []
        if isinstance(outcome, ErrorInfo):
            return [replace(row, error=outcome) for row in rows]
        return [replace(row, outcome=_adapter(asked.result_class).dump_python(outcome, mode="json")) for row in rows]


def _names(found: OperationRecord) -> tuple[str, str, dict[str, Any]]:
    return found.caller, found.procedure, dict(found.arguments)


@cache
def _adapter(result_class: type) -> TypeAdapter[Any]:
    return TypeAdapter(result_class)
