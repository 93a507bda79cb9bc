"""Which rounds a sweep knows, and which it proves to be of the lake table's history, those that the ledger forgot included.

See `tiering.lake.rules.upkeep.former_rounds`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tiering.coordinator.memory.table_records import TableRecords
from tiering.lake.base import LakeView
from tiering.lake.maintenance import ExpiredAncestors, LakeMaintenance, StoredFile
from tiering.lake.rules.sweep import RoundFate, is_own, round_of
from tiering.lake.rules.upkeep.expired_files import LandedRound, Lineage
from tiering.lake.rules.upkeep.former_rounds import LEFT_TO_LEDGER, forgotten_round, note_of, noted_fates, noted_history


@dataclass(frozen=True)
class Ledger:
    """What the store knows of a table's rounds. `fates`: the newest first. `rounds`: all that were granted, with their bases."""

    fates: Mapping[str, RoundFate]
    rounds: Sequence[LandedRound]


class SweptRounds:
    """The rounds of one table in one sweep. The note of an earlier sweep is read at the construction, before anything in the lake."""

    def __init__(self, table_records: TableRecords, table_id: int, ledger: Ledger) -> None:
        self._table_records = table_records
        self._table_id = table_id
        self.ledger = ledger
        self._note = table_records.store.former_rounds(table_id)

    def fates(self, table_uuid: str) -> dict[str, RoundFate]:
        """The fates of all rounds of which any grant is known; those of the ledger come first."""
        noted = noted_fates(self._note, table_uuid)
        return {**self.ledger.fates, **{round_id: noted[round_id] for round_id in noted.keys() - self.ledger.fates.keys()}}

    def proved(
        self, lake: LakeMaintenance, view: LakeView, files: Sequence[StoredFile], live: Collection[str], lineage: Lineage
    ) -> Lineage:
        """`lineage` with the rounds that the ledger forgot."""
        proved = {*lineage.rounds, *(noted_history(self._note, lineage) - self.ledger.fates.keys())}
        known = {*self.fates(view.table_uuid), *proved}
        unknown = {file: round_id for file in files if (round_id := forgotten_round(file.name, known)) is not None}
        proved |= {round_id for file, round_id in unknown.items() if file.location in live}
        if not proved.issuperset(unknown.values()) and isinstance(lake, ExpiredAncestors):
            lists = lake.expired_ancestors(view, files)
            proved |= {round_id for name in lists if (round_id := forgotten_round(name, known)) is not None}
        return replace(lineage, rounds=frozenset(proved))

    def note(self, view: LakeView, files: Sequence[StoredFile], lineage: Lineage | None, fates: Mapping[str, RoundFate]) -> None:
        """Stores what is known and proved of the rounds of which `files` are stored, if it is not stored already.

        Without the newest rounds of the ledger, which keeps them for long. Raises StoreError, Fenced.
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
