"""What idempotency keys name (DESIGN 5): an operation, its goal and, once there is one, its outcome.

The row is stored in one transaction with the round it asks for. So a repeat, also after a restart of the coordinator,
attaches to the same goal or gets the same answer, until the key is forgotten.
"""

from __future__ import annotations

from dataclasses import replace

from tiering.coordinator.api import TierTable, TierTableResult
from tiering.coordinator.book import Book
from tiering.coordinator.call_rows import PROCEDURE, Goal, arguments, attach, stored_outcome
from tiering.coordinator.records import ErrorInfo, OperationRecord


class Operations:
    """All of them, in the book's store."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def attach(self, call: TierTable) -> tuple[Goal, OperationRecord] | None:
        """The earlier call with this key; None = a new key, or none. Raises InvalidArgument if it asked for something else.

        A dry run has no key: it must neither start what an earlier call left open nor be taken for it.
        """
        known = self._book.store.operation(call.idempotency_key) if call.idempotency_key and not call.dry_run else None
        return None if known is None else (attach(call, known, self._book.now().steady), known)

    def begun(self, call: TierTable, goal: Goal) -> list[OperationRecord]:
        """The row to store with the round of `goal`. Two calls may meet here: the first one's goal stands.

        Call it under the book's lock.
        """
        if call.idempotency_key is None or call.dry_run:
            return []
        known = self._book.store.operation(call.idempotency_key)
        if known is not None:
            attach(call, known, goal.started_since)
            return [replace(known, round_id=goal.round_id)]
        made = OperationRecord(
            idempotency_key=call.idempotency_key,
            caller=call.caller,
            procedure=PROCEDURE,
            arguments=arguments(call),
            table_id=goal.table_id,
            started_time=self._book.now().wall,
            targets=goal.targets,
            log_starts=goal.log_starts,
            round_id=goal.round_id,
            lag_ms_before=goal.lag_ms_before,
        )
        return [made]

    def ended(self, call: TierTable, goal: Goal, outcome: TierTableResult | ErrorInfo) -> None:
        """Stores how it ended. The first outcome stands."""
        with self._book.changing():
            for operation in self.begun(call, goal):
                if operation.outcome is not None or operation.error is not None:
                    continue
                if isinstance(outcome, ErrorInfo):
                    self._book.put(operations=[replace(operation, error=outcome)])
                else:
                    self._book.put(operations=[replace(operation, outcome=stored_outcome(outcome))])
