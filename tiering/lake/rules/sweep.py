"""Which files of a lake table may be deleted: what dead rounds left, and what only expired snapshots named. Pure (DESIGN 6 step 7).

A file goes only if all of this holds: its name is one of ours and names a round that the coordinator knows; no snapshot of the
table names it, those that only tags and branches keep included; it is older than the guard; its round has ended; and its round was
either never granted a commit, or granted one for this very lake table on a tiering commit that is gone, so that the compare-and-set
refuses it however late it arrives. While that commit is there, somebody may roll the table back to it, and the late one lands. What a
grant for another lake table came to is not known here: that one may stand renamed in the same folder, with the files alive. A round
that landed must still be seen in the lake: if its snapshot is gone, its files may belong to a copy of the table that somebody means to
put back. `expired_files` tells which of these files only expired snapshots named; such a file goes once it has been dead for the guard.
Of a round that was open when a coordinator started the grant may be lost, with a store that was set back: it may have been granted on any
commit of a round before it. In a lake format with follow-up commits (`FollowUpCommits`) the files of a round stay while its own snapshot is
there, because the follow-up commit that names them may still land on it.

For this to hold the caller reads in this order: rounds and ledger, then the files, then the lake table. So a round that lands
meanwhile is either still open in what was read first, or in the lake that was read last.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from tiering.lake.maintenance import StoredFile
from tiering.lake.rules.upkeep.expired_files import CLOCK_SKEW

_OWN = re.compile(r"(?:snap-[0-9]+-0-)?lakeward-(?P<rest>.+)\.(?:parquet|avro|marker)")
"""Data files (`iceberg/writing/writer.py`), manifests and their lists (`iceberg/commit/staging.py`), marker files."""


class Verdict(StrEnum):
    """What becomes of a file, and why."""

    REMOVE = "REMOVE"
    NOT_OURS = "NOT_OURS"
    LIVE = "LIVE"
    YOUNG = "YOUNG"
    UNKNOWN_ROUND = "UNKNOWN_ROUND"
    OPEN_ROUND = "OPEN_ROUND"
    MAY_STILL_LAND = "MAY_STILL_LAND"
    OF_ANOTHER_COPY = "OF_ANOTHER_COPY"
    EXPIRED_LATELY = "EXPIRED_LATELY"
    OF_ANOTHER_TABLE = "OF_ANOTHER_TABLE"


@dataclass(frozen=True)
class RoundFate:
    """A round as the coordinator knows it.

    `granted_on`: of each grant that it got, the newest tiering commit then (None in it: there was none); empty = never granted.

    `may_be_granted`: a grant of it may be lost; then it was on a commit of a round with a lower `epoch`.

    `granted_for`: the uuid of the lake table of its grants; None = an older version that did not keep it granted them.
    """

    ended: bool
    granted_on: tuple[int | None, ...] = ()
    landed: bool = False
    granted_for: str | None = None
    epoch: int = 0
    may_be_granted: bool = False


@dataclass(frozen=True)
class SweptTable:
    """The lake table, read last. `live`: locations that any snapshot names; `rounds`: round ids that its snapshots carry.

    `begins_untiered`: a snapshot is there that is older than those of all rounds.

    `has_follow_up_commits`: after its own snapshot a round commits a second one, without a grant of its own (`FollowUpCommits`).

    `dead_since`: by location the files that only expired snapshots named, and since when that is known (`expired_files`).
    `oldest_commit`: when the oldest snapshot was committed.
    """

    table_uuid: str
    snapshots: Collection[int]
    tiered: int | None
    live: Collection[str]
    rounds: Collection[str]
    begins_untiered: bool = False
    dead_since: Mapping[str, datetime] = field(default_factory=dict)
    oldest_commit: datetime | None = None
    has_follow_up_commits: bool = False


@dataclass(frozen=True)
class SweepGuards:
    """Times: files of dead rounds are older than `dead_rounds`, and expired files are known to be dead since before `expired`."""

    dead_rounds: datetime
    expired: datetime


def sweep_verdicts(
    files: Iterable[StoredFile],
    fates: Mapping[str, RoundFate],
    lake: SweptTable,
    now: datetime,
    older_than: timedelta,
    expired_older_than: timedelta | None = None,
) -> list[tuple[StoredFile, Verdict]]:
    """The verdict on each of `files`, in their order. `now` and the ages make the guards; None = the same for expired files."""
    guards = SweepGuards(now - older_than, now - (older_than if expired_older_than is None else expired_older_than))
    return [(file, _verdict(file, fates, lake, guards)) for file in files]


def is_own(name: str) -> bool:
    """Whether a file has a name that Lakeward gives."""
    return _OWN.fullmatch(name) is not None


def round_of(name: str, known: Collection[str]) -> str | None:
    """The known round that a file's name carries; None if it is not ours, no known one's, or could be of two."""
    match = _OWN.fullmatch(name)
    if match is None:
        return None
    parts = match["rest"].split("-")
    matching_rounds = [candidate for end in range(1, len(parts)) if (candidate := "-".join(parts[:end])) in known]
    return matching_rounds[0] if len(matching_rounds) == 1 else None


def _verdict(file: StoredFile, fates: Mapping[str, RoundFate], lake: SweptTable, guards: SweepGuards) -> Verdict:
    if not is_own(file.name):
        return Verdict.NOT_OURS
    if file.location in lake.live:
        return Verdict.LIVE
    dead_since = lake.dead_since.get(file.location)
    if file.modified_at >= (guards.dead_rounds if dead_since is None else guards.expired):
        return Verdict.YOUNG
    round_id = round_of(file.name, fates)
    if round_id is None:
        return _verdict_of_pruned_round(file, lake, dead_since, guards)
    return _verdict_of_round(round_id, fates, lake, dead_since, guards)


def _verdict_of_pruned_round(file: StoredFile, lake: SweptTable, dead_since: datetime | None, guards: SweepGuards) -> Verdict:
    """The round's grants are not known any more. A snapshot that is younger than the file cannot be what the round was granted on."""
    if dead_since is None:
        return Verdict.UNKNOWN_ROUND
    is_outlived = lake.oldest_commit is not None and file.modified_at + CLOCK_SKEW < lake.oldest_commit
    if lake.tiered is None or lake.begins_untiered or not is_outlived:
        return Verdict.MAY_STILL_LAND
    return Verdict.REMOVE if dead_since < guards.expired else Verdict.EXPIRED_LATELY


def _verdict_of_round(
    round_id: str, fates: Mapping[str, RoundFate], lake: SweptTable, dead_since: datetime | None, guards: SweepGuards
) -> Verdict:
    fate = fates[round_id]
    if not fate.ended:
        return Verdict.OPEN_ROUND
    if fate.granted_on and not is_granted_for(lake, fate, round_id):
        return Verdict.OF_ANOTHER_TABLE
    if _may_land(fate, fates, lake) or (lake.has_follow_up_commits and round_id in lake.rounds):
        return Verdict.MAY_STILL_LAND
    if fate.landed and round_id not in lake.rounds:
        if dead_since is None:
            return Verdict.OF_ANOTHER_COPY
        return Verdict.REMOVE if dead_since < guards.expired else Verdict.EXPIRED_LATELY
    return Verdict.REMOVE


def _may_land(fate: RoundFate, fates: Mapping[str, RoundFate], lake: SweptTable) -> bool:
    """Whether the compare-and-set lets a late commit of the round through: now, or once the table was rolled back."""
    may_be_untiered = lake.tiered is None or lake.begins_untiered
    if fate.granted_on:
        return any(may_be_untiered if base is None else base == lake.tiered or base in lake.snapshots for base in fate.granted_on)
    return fate.may_be_granted and (may_be_untiered or any(_is_before(fates.get(round_id), fate) for round_id in lake.rounds))


def _is_before(other: RoundFate | None, fate: RoundFate) -> bool:
    return other is None or other.epoch < fate.epoch


def is_granted_for(lake: SweptTable, fate: RoundFate, round_id: str) -> bool:
    """Whether a round was granted its commit for this lake table; without a uuid, what it was built on or left here tells."""
    if fate.granted_for is not None:
        return fate.granted_for == lake.table_uuid
    return round_id in lake.rounds or any(snapshot in lake.snapshots for snapshot in fate.granted_on)
