"""Which files of a lake table only expired snapshots named, and since when. Pure, except for the memory of earlier sweeps.

A sweep sees that no snapshot names a file. This has two possible causes: expiry removed the snapshots that named it, or a user set the
table back to an older copy and keeps the newer one elsewhere. In the second case the file must stay. So a file counts as expired only if
it was part of the present history of the table:

    its round is known      the round is on the chain of rounds that leads to the newest tiering commit (`lineage_of`)
    its round is pruned     an earlier sweep of this process saw a snapshot that named the file, and the newest tiering commit of that
                            sweep is on the present chain. All snapshots are younger than the file, so no late commit of its round fits

A query that began before the expiry may still read the file. So the file is deleted only once `dead_since` is older than the guard.
`dead_since` is the time of the first sweep that found the file expired. After a restart it begins again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

REMEMBERED_TABLES = 10_000
REMEMBERED_FILES = 100_000
"""Upper bound of the remembered files of a table, for each kind; about 100 bytes each. Further files stay until some are deleted."""

CLOCK_SKEW = timedelta(hours=1)
"""Upper bound of the difference between the clocks of tierers and of the storage."""


@dataclass(frozen=True)
class CommittedRound:
    """A landed round of the ledger, and the round that it was built on."""

    round_id: str
    base_round_id: str | None


@dataclass(frozen=True)
class Lineage:
    """The rounds that lead to the newest tiering commit of a lake table, including the newest one, as far as the ledger reaches back."""

    table_uuid: str
    newest: str
    rounds: Collection[str]


def lineage_of(table_uuid: str, newest: str, base: str | None, ledger: Iterable[CommittedRound]) -> Lineage:
    """Returns the chain of rounds that leads to `newest`, whose marker names `base`."""
    bases = {row.round_id: row.base_round_id for row in ledger}
    rounds, current = {newest}, base
    while current is not None and current not in rounds:
        rounds.add(current)
        current = bases.get(current)
    return Lineage(table_uuid, newest, frozenset(rounds))


@dataclass(frozen=True)
class FilesOfRounds:
    """Locations that one sweep saw: files of landed rounds that no snapshot names, and files of pruned rounds by whether one does."""

    dead: Mapping[str, str]
    """The id of the known round, by location."""
    pruned_live: Collection[str]
    pruned_dead: Collection[str]


@dataclass
class _TableCandidates:
    table_uuid: str
    newest: str
    dead_since: dict[str, datetime] = field(default_factory=dict)
    once_live: set[str] = field(default_factory=set)


class OrphanCandidates:
    """The files of lake tables that earlier sweeps saw. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tables: OrderedDict[int, _TableCandidates] = OrderedDict()

    def observe(self, table_id: int, lineage: Lineage, files: FilesOfRounds, now: datetime) -> Mapping[str, datetime]:
        """Records a sweep. Returns by location the time since when no snapshot is known to name each expired file."""
        with self._lock:
            before = self._tables.pop(table_id, None)
            if before is None or before.table_uuid != lineage.table_uuid or before.newest not in lineage.rounds:
                before = _TableCandidates(lineage.table_uuid, lineage.newest)  # the table was set back since, or this is the first sweep
            dead = [location for location, round_id in files.dead.items() if round_id in lineage.rounds]
            dead += [location for location in files.pruned_dead if location in before.once_live or location in before.dead_since]
            dead_since = {location: before.dead_since.get(location, now) for location in dead[:REMEMBERED_FILES]}
            once_live = set(sorted(files.pruned_live)[:REMEMBERED_FILES])
            self._tables[table_id] = _TableCandidates(lineage.table_uuid, lineage.newest, dead_since, once_live)
            while len(self._tables) > REMEMBERED_TABLES:
                self._tables.popitem(last=False)
            return dict(dead_since)

    def waiting(self, table_id: int) -> int:
        """Returns how many expired files of a table wait to be deleted."""
        with self._lock:
            sightings = self._tables.get(table_id)
            return 0 if sightings is None else len(sightings.dead_since)
