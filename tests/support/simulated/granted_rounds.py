"""At most one round of a table may commit at a time (DESIGN 11): what is noted of each grant."""

from __future__ import annotations

from collections.abc import Iterable

from tiering.coordinator.decisions.records import TableRecord
from tiering.model.rounds import Assignment


class GrantedRounds:
    """Granted rounds of one deployment, by any coordinator."""

    def __init__(self) -> None:
        self._rounds: set[str] = set()
        self._epochs: dict[int, int] = {}
        """By table, of the newest round that was granted its commit."""

    def complaint(self, assignment: Assignment, stored: Iterable[TableRecord]) -> str | None:
        """Returns the problem of a grant: a round gets its first only while the store has it as its table's newest, and not behind a newer.

        A repeat is right: what it lets a round do the round could do before.
        """
        if assignment.round_id in self._rounds:
            return None
        self._rounds.add(assignment.round_id)
        newest = next((record.round for record in stored if record.table_id == assignment.table_id), None)
        if newest is None or newest.round_id != assignment.round_id:
            return f"round {assignment.round_id} is granted its commit, the newest is {None if newest is None else newest.round_id}"
        before = self._epochs.get(assignment.table_id, 0)
        if assignment.tiering_epoch <= before:
            return f"epoch {assignment.tiering_epoch} is granted its commit after epoch {before}"
        self._epochs[assignment.table_id] = assignment.tiering_epoch
        return None
