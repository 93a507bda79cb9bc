"""The rounds that a sweep knows or proves to belong to the lake table's history, including rounds that the ledger no longer has.

The rules are in `tiering.lake.rules.upkeep.former_rounds`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tiering.coordinator.memory.table_records import TableRecords
from tiering.lake.base import LakeView
from tiering.lake.maintenance import ExpiredAncestors, LakeMaintenance, StoredFile
from tiering.lake.rules.sweep import RoundFate, is_own, round_of
from tiering.lake.rules.upkeep.expired_files import CommittedRound, Lineage
from tiering.lake.rules.upkeep.former_rounds import LEFT_TO_LEDGER, forgotten_round, note_of, noted_fates, noted_history


@dataclass(frozen=True)
class Ledger:
    """The stored facts about a table's rounds. `fates`: the newest round first. `rounds`: all granted rounds, with their bases."""

    fates: Mapping[str, RoundFate]
    rounds: Sequence[CommittedRound]


class SweptRounds:
    """The rounds of one table in one sweep. The constructor reads the result of an earlier sweep, before anything in the lake is read."""

    def __init__(self, table_records: TableRecords, table_id: int, ledger: Ledger) -> None:
        self._table_records = table_records
        self._table_id = table_id
        self.ledger = ledger
        self._note = table_records.store.former_rounds(table_id)

    def fates(self, table_uuid: str) -> dict[str, RoundFate]:
        """Returns the fates of all rounds with a known grant. Those in the ledger come first."""
        noted = noted_fates(self._note, table_uuid)
        return {**self.ledger.fates, **{round_id: noted[round_id] for round_id in noted.keys() - self.ledger.fates.keys()}}

    def proved(
        self, lake: LakeMaintenance, view: LakeView, files: Sequence[StoredFile], live: Collection[str], lineage: Lineage
    ) -> Lineage:
        """Returns `lineage` with the rounds that the ledger no longer has."""
        proved = {*lineage.rounds, *(noted_history(self._note, lineage) - self.ledger.fates.keys())}
        known_rounds = {*self.fates(view.table_uuid), *proved}
        unknown = {file: round_id for file in files if (round_id := forgotten_round(file.name, known_rounds)) is not None}
        proved |= {round_id for file, round_id in unknown.items() if file.location in live}
        if not proved.issuperset(unknown.values()) and isinstance(lake, ExpiredAncestors):
            lists = lake.expired_ancestors(view, files)
            proved |= {round_id for name in lists if (round_id := forgotten_round(name, known_rounds)) is not None}
        return replace(lineage, rounds=frozenset(proved))

    def note(self, view: LakeView, files: Sequence[StoredFile], lineage: Lineage | None, fates: Mapping[str, RoundFate]) -> None:
        """Stores what is known and proved about the rounds of `files`, unless it is stored already.

        The newest rounds in the ledger are omitted, because the ledger keeps them for long. Raises StoreError, Fenced.
        """
        young = set(list(self.ledger.fates)[: len(self.ledger.fates) // LEFT_TO_LEDGER])
        stored = dict.fromkeys(
            round_id
            for file in files
            if is_own(file.name) and (round_id := round_of(file.name, fates) or forgotten_round(file.name, fates)) is not None
        )
        note = note_of(self._note, view.table_uuid, lineage, fates, (round_id for round_id in stored if round_id not in young))
        if note != self._note:
            self._table_records.note_former_rounds(self._table_id, note)
