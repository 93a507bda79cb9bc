"""What a sweep notes of rounds that the ledger is going to forget while the lake still stores files of theirs. Pure.

The ledger keeps the newest rounds of a table, at a commit every 10 s those of 14 hours. Files live longer: files of a dead round are
deleted after a day, and a snapshot stays for a day with the files that it names. Without a note the sweep would not know their rounds
then, and they would never be deleted. The note of a round has what the ledger had (`RoundFate`), and whether the round is proved to be
of the table's history:

    the ledger              it is on the chain of rounds that leads to the newest tiering commit (`lineage_of`)
    an earlier note         and the newest tiering commit of that note is on the chain of now
    a live file             a snapshot of the table names a file of the round
    a manifest list         the round's snapshot expired, and a snapshot of the table descends from it (`ExpiredAncestors`)

The last two are for tables of earlier versions, which noted nothing. The rounds of a copy that a user put aside are never proved: none of
its snapshots is an ancestor of the table's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from tiering.lake.rules.sweep import RoundFate
from tiering.lake.rules.upkeep.expired_files import Lineage

REMEMBERED_ROUNDS = 100_000
"""Upper bound of the rounds that are noted of a table, some 100 bytes each. Files of further ones stay until some are gone."""

LEFT_TO_LEDGER = 5
"""The newest rounds of the ledger, one part in so many, are not noted: it keeps them until many more sweeps have passed."""

_ROUND_ID = re.compile(r"(?:snap-[0-9]+-0-)?lakeward-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-")


@dataclass(frozen=True)
class NotedRound:
    """One round. `fate` None: it landed, and its grants are not known."""

    fate: RoundFate | None
    is_of_history: bool


@dataclass(frozen=True)
class FormerRounds:
    """The rounds by id, of the lake table `table_uuid` whose newest tiering commit was of the round `newest`; None = not looked at."""

    table_uuid: str
    newest: str | None = None
    rounds: Mapping[str, NotedRound] = field(default_factory=dict)

    def to_json(self) -> str:
        """The note as a store keeps it."""
        return _ADAPTER.dump_json(self, exclude_defaults=True).decode()

    @staticmethod
    def from_plain(plain: object) -> FormerRounds:
        """The note from what JSON made of `to_json`."""
        return _ADAPTER.validate_python(plain)


_ADAPTER = TypeAdapter(FormerRounds)


def forgotten_round(name: str, known: Collection[str]) -> str | None:
    """The id of the round that wrote a file and that is not `known`, from the name alone; None for files of known rounds, and others."""
    match = _ROUND_ID.match(name)
    return None if match is None or match[1] in known else match[1]


def noted_fates(note: FormerRounds | None, table_uuid: str) -> dict[str, RoundFate]:
    """The fates of the noted rounds whose grants are known."""
    if note is None or note.table_uuid != table_uuid:
        return {}
    return {round_id: noted.fate for round_id, noted in note.rounds.items() if noted.fate is not None}


def noted_history(note: FormerRounds | None, lineage: Lineage) -> set[str]:
    """The noted rounds of the table's history; none if the table was set back since, or is another one."""
    if note is None or note.table_uuid != lineage.table_uuid or note.newest not in lineage.rounds:
        return set()
    return {round_id for round_id, noted in note.rounds.items() if noted.is_of_history}


def note_of(
    before: FormerRounds | None, table_uuid: str, lineage: Lineage | None, fates: Mapping[str, RoundFate], stored: Iterable[str]
) -> FormerRounds:
    """The note of a sweep on the rounds `stored`, of which files are stored. The rounds of the ledger come first in `fates`, newest first.

    `lineage` has all rounds that are proved; None = this sweep could prove none, so that the earlier note's word counts.
    """
    if lineage is not None:
        newest: str | None = lineage.newest
        proved: Collection[str] = lineage.rounds
    else:
        is_same = before is not None and before.table_uuid == table_uuid
        newest = before.newest if before is not None and is_same else None
        proved = {key for key, noted in before.rounds.items() if noted.is_of_history} if before is not None and is_same else ()
    rounds: dict[str, NotedRound] = {}
    for round_id in stored:
        fate = fates.get(round_id)
        if len(rounds) < REMEMBERED_ROUNDS and (fate is not None or round_id in proved):
            rounds[round_id] = NotedRound(fate, round_id in proved)
    return FormerRounds(table_uuid, newest, rounds)
