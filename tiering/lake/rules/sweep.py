"""Which files of a lake table the sweep may delete: files of dead rounds, and files that only expired snapshots named. Pure (DESIGN 6).

A file is deleted only if all of this holds:

- Its name is one of Lakeward's, and names a round that the coordinator knows.
- No snapshot of the table names it, including snapshots that only tags and branches keep.
- It is older than the guard.
- Its round has ended.
- Its round was never granted a commit, or it was granted one for this very lake table, on a tiering commit that is gone: then the
  compare-and-set refuses a late commit. While that tiering commit exists, a user may roll the table back to it, and the late commit lands.
  The outcome of a grant for another lake table is unknown here: that table may be in the same folder under another name.
- If its round landed, the lake still has a snapshot of that round. Otherwise the files may belong to a copy of the table that a user means
  to put back. `expired_files` tells which of them only expired snapshots named: these are deleted once they were dead for the time of the
  guard.

If a round was open when a coordinator started, its grant may be lost because the store was set back. It then may have been granted on any
commit of an earlier round. In a lake format with follow-up commits (`FollowUpCommits`) the files of a round stay while its own snapshot
exists, because the follow-up commit that names them may still land on it.

The caller reads in this order: rounds and ledger, then the files, then the lake table. So a round that lands in between is either still
open in the rounds that were read first, or in the lake that was read last.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from tiering.lake.maintenance import StoredFile
from tiering.lake.rules.upkeep.expired_files import CLOCK_SKEW

_OWN = re.compile(r"(?:snap-[0-9]+-0-)?lakeward-(?P<round_and_number>.+)\.(?:parquet|avro|marker)")
"""Names of data files (`iceberg/writing/writer.py`), manifests and manifest lists (`iceberg/commit/staging.py`), and marker files."""


class Verdict(StrEnum):
    """Whether the sweep removes a file, and the reason if it does not."""

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

    `granted_on`: the newest tiering commit at each of its grants (None: there was none). Empty = never granted.

    `may_be_granted`: a grant of the round may be lost. It was then on a commit of a round with a lower `epoch`.

    `granted_for`: the uuid of the lake table of its grants. None = an older version granted them, which did not keep the uuid.
    """

    ended: bool
    granted_on: tuple[int | None, ...] = ()
    landed: bool = False
    granted_for: str | None = None
    epoch: int = 0
    may_be_granted: bool = False


@dataclass(frozen=True)
class SweptTable:
    """The lake table, which is read last. `live`: locations that any snapshot names. `rounds`: round ids that its snapshots carry.

    `begins_untiered`: a snapshot exists that is older than those of all rounds.

    `has_follow_up_commits`: after its own snapshot a round commits a second one without another grant (`FollowUpCommits`).

    `dead_since`: by location the files that only expired snapshots named, and since when that is known (`expired_files`).
    `oldest_commit`: the commit time of the oldest snapshot.
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
    """Upper bounds of times: files of dead rounds are older than `dead_rounds`; expired files were known to be dead before `expired`."""

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
    """Returns the verdict on each file, in the order of `files`. The guards are `now` minus the ages. `expired_older_than` None =
    `older_than`."""
    guards = SweepGuards(now - older_than, now - (older_than if expired_older_than is None else expired_older_than))
    return [(file, _verdict(file, fates, lake, guards)) for file in files]


def is_own(name: str) -> bool:
    """Whether Lakeward gives files such a name."""
    return _OWN.fullmatch(name) is not None


def round_of(name: str, known_rounds: Collection[str]) -> str | None:
    """Returns the known round whose id the file's name carries; None if the name is not Lakeward's or matches no or several rounds."""
    match = _OWN.fullmatch(name)
    if match is None:
        return None
    parts = match["round_and_number"].split("-")
    matching_rounds = [candidate for end in range(1, len(parts)) if (candidate := "-".join(parts[:end])) in known_rounds]
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
    """Returns the verdict on a file of a round whose grants are no longer known.

    The round cannot have been granted on a snapshot that is younger than the file.
    """
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
    """Whether the compare-and-set accepts a late commit of the round, now or after a user rolled the table back."""
    may_be_untiered = lake.tiered is None or lake.begins_untiered
    if fate.granted_on:
        return any(may_be_untiered if base is None else base == lake.tiered or base in lake.snapshots for base in fate.granted_on)
    others = (fates.get(round_id) for round_id in lake.rounds)
    return fate.may_be_granted and (may_be_untiered or any(other is None or other.epoch < fate.epoch for other in others))


def is_granted_for(lake: SweptTable, fate: RoundFate, round_id: str) -> bool:
    """Whether the round's commit was granted for this lake table. Without a uuid, its base or its snapshot in this table tells."""
    if fate.granted_for is not None:
        return fate.granted_for == lake.table_uuid
    return round_id in lake.rounds or any(snapshot in lake.snapshots for snapshot in fate.granted_on)
