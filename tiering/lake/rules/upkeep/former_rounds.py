"""The sweep's note of rounds that the ledger will drop while the lake still stores their files. Pure.

The ledger keeps the newest rounds of a table: with a commit every 10 s those of 14 hours. Files live longer. Files of a dead round are
deleted after a day, and a snapshot stays for a day with its files. Without the note the sweep would no longer know their rounds, and the
files would never be deleted. The note of a round has the ledger's data (`RoundFate`), and whether the round is proved to be part of the
table's history. One of these proves it:

    the ledger              the round is on the chain of rounds that leads to the newest tiering commit (`lineage_of`)
    an earlier note         it proves the round, and its newest tiering commit is on the present chain
    a live file             a snapshot of the table names a file of the round
    a manifest list         the round's snapshot expired, and a snapshot of the table descends from it (`ExpiredAncestors`)

The last two are for tables of earlier versions, which kept no note. The rounds of a copy that a user put aside are never proved, because
none of its snapshots is an ancestor of the table's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from tiering.lake.rules.sweep import RoundFate
from tiering.lake.rules.upkeep.expired_files import Lineage

REMEMBERED_ROUNDS = 100_000
"""Upper bound of the noted rounds of a table, about 100 bytes each. Files of further rounds stay until some are deleted."""

LEFT_TO_LEDGER = 5
"""Divisor of the number of the ledger's newest rounds that are not noted, because the ledger keeps them for many more sweeps."""

_ROUND_ID = re.compile(r"(?:snap-[0-9]+-0-)?lakeward-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-")


@dataclass(frozen=True)
class RecordedRound:
    """A round of the note. `fate` None: the round landed, and its grants are unknown."""

    fate: RoundFate | None
    is_of_history: bool


@dataclass(frozen=True)
class FormerRounds:
    """The noted rounds by id, for the lake table `table_uuid`. `newest`: the round of its newest tiering commit; None = not determined."""

    table_uuid: str
    newest: str | None = None
    rounds: Mapping[str, RecordedRound] = field(default_factory=dict)

    def to_json(self) -> str:
        """Returns the note as the store keeps it."""
        return _ADAPTER.dump_json(self, exclude_defaults=True).decode()

    @staticmethod
    def from_plain(plain: object) -> FormerRounds:
        """Returns the note from the parsed JSON of `to_json`."""
        return _ADAPTER.validate_python(plain)


_ADAPTER = TypeAdapter(FormerRounds)


def forgotten_round(name: str, known_rounds: Collection[str]) -> str | None:
    """Returns the round id in a file's name if the round is not known; None for files of known rounds and for other files."""
    match = _ROUND_ID.match(name)
    return None if match is None or match[1] in known_rounds else match[1]


def noted_fates(note: FormerRounds | None, table_uuid: str) -> dict[str, RoundFate]:
    """Returns the fates of the noted rounds whose grants are known."""
    if note is None or note.table_uuid != table_uuid:
        return {}
    return {round_id: noted.fate for round_id, noted in note.rounds.items() if noted.fate is not None}


def noted_history(note: FormerRounds | None, lineage: Lineage) -> set[str]:
    """Returns the noted rounds of the table's history; none if the table was set back or replaced since."""
    if note is None or note.table_uuid != lineage.table_uuid or note.newest not in lineage.rounds:
        return set()
    return {round_id for round_id, noted in note.rounds.items() if noted.is_of_history}


def note_of(
    before: FormerRounds | None, table_uuid: str, lineage: Lineage | None, fates: Mapping[str, RoundFate], stored: Iterable[str]
) -> FormerRounds:
    """Returns the new note for the rounds `stored`, whose files are stored. In `fates` the ledger's rounds come first, newest first.

    `lineage` has all proved rounds. None = this sweep could prove none, so the proofs of the earlier note are kept.
    """
    if lineage is not None:
        newest: str | None = lineage.newest
        proved: Collection[str] = lineage.rounds
    else:
        is_same = before is not None and before.table_uuid == table_uuid
        newest = before.newest if before is not None and is_same else None
        proved = {key for key, noted in before.rounds.items() if noted.is_of_history} if before is not None and is_same else ()
    rounds: dict[str, RecordedRound] = {}
    for round_id in stored:
        fate = fates.get(round_id)
        if len(rounds) < REMEMBERED_ROUNDS and (fate is not None or round_id in proved):
            rounds[round_id] = RecordedRound(fate, round_id in proved)
    return FormerRounds(table_uuid, newest, rounds)
