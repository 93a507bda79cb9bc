"""Which snapshots of a lake table expire with the next tiering commit. Pure.

These snapshots always stay:

    the head, the newest tiering commit, and every newer snapshot       rounds check the history in between (`history`)
    the snapshot that a tag or branch names
    the ancestors that a branch keeps by its own retention              as in Iceberg's own expiry (spec, "Snapshot Retention Policy")
    the newest `min_count` snapshots of the main branch
    the newest one of the main branch that is older than `max_age_ms`   it was the head at the beginning of that time
    those that the user's `history.expire.*` keeps                      these options can keep more than the policy, never less
    those that open reads need                                          the coordinator knows them
    the newest tiering commit when the round was assigned, and later    reads that were opened since then need one of them

The other snapshots of the main branch are thinned: of each slot, which is a 96th part of `max_age_ms`, the last snapshot stays until it is
older than `max_age_ms`. So a table with a commit every 10 s has about a hundred snapshots instead of thousands. A query as of a time within
`max_age_ms` sees a state that is at most one slot older.

Snapshots that were never on the main branch and that no reference keeps, such as those that an engine staged, stay for
`UNREFERENCED_MAX_AGE_MS`, because nothing tells what they wait for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tiering.lake.table_options import snapshot_retention
from tiering.model.tables import SnapshotRetention, TableInfo
from tiering.model.upkeep import ExpiryOrder

SLOTS = 96
"""Number of slots within the maximum age: 15 min each for a day."""

REMOVED_AT_ONCE = 1_000
"""Upper bound of the snapshots that one commit removes; half of the table's snapshots if that is more.

So a table with very many snapshots is cleaned in steps, and the first steps are the largest: each commit reads and writes the metadata of
all remaining snapshots. 50,000 snapshots are removed after 7 commits.
"""

ORDERED_AT_ONCE = 10_000
"""Upper bound of the snapshots that one commit removes if a user ordered the removal and waits for it."""

UNREFERENCED_MAX_AGE_MS = 5 * 86_400_000
"""Iceberg's default of `history.expire.max-snapshot-age-ms`."""

DEFAULT_BRANCH_MAX_AGE_MS = 5 * 86_400_000
DEFAULT_BRANCH_MIN_COUNT = 1
"""Iceberg's defaults for a branch without a retention of its own, in a table without `history.expire.*`."""


NEWEST = "the newest tiering commit and what came since"
NEWEST_OF_MAIN = "the newest snapshots"
YOUNG = "younger than the age"
HEAD_AT_BEGIN = "the head when the age begins"
KEPT_BY_USER = "the lake table's own retention (history.expire.*, or that of its main branch)"
OFF_MAIN = "never on the main branch"
OPEN_READS = "open reads (sys.open_reads)"
UNKNOWN_READS = "a read of the table is being opened"
UNKNOWN_HEAD = "the newest tiering commit is unknown"
"""Reasons why a snapshot stays, in addition to the names of tags and branches."""


@dataclass(frozen=True)
class ExpiryRule:
    """The rule by which a commit removes snapshots. `thins`: within the maximum age only one of each slot stays."""

    retention: SnapshotRetention
    thins: bool = True


def expiry_rule(table: TableInfo, order: ExpiryOrder | None, now_ms: int) -> ExpiryRule | None:
    """Returns the rule for a commit to the table; None = it removes nothing. An order also applies to a table without automatic expiry.

    The table's options replace what the order leaves out. An age that a user orders is taken literally: no younger snapshot is removed.
    """
    if order is None:
        return None if table.snapshot_retention is None else ExpiryRule(table.snapshot_retention)
    usual = table.snapshot_retention or snapshot_retention(table.properties)
    min_count = usual.min_count if order.retain_last is None else order.retain_last
    if order.older_than is None:
        return ExpiryRule(SnapshotRetention(usual.max_age_ms, min_count), thins=table.snapshot_retention is not None)
    age_ms = max(0, now_ms - int(order.older_than.timestamp() * 1_000))
    return ExpiryRule(SnapshotRetention(age_ms, min_count), thins=False)


@dataclass(frozen=True)
class TableSnapshot:
    """One snapshot. `is_of_round`: a Lakeward round made it, so it was on the main branch."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    committed_ms: int
    is_of_round: bool = False


@dataclass(frozen=True)
class TableReference:
    """A tag, or a branch with its own retention. None = the table's retention applies."""

    snapshot_id: int
    is_branch: bool
    max_age_ms: int | None = None
    min_count: int | None = None
    name: str = ""

    @property
    def title(self) -> str:
        """The reference as text: `the tag 'audit'`."""
        return f"the {'branch' if self.is_branch else 'tag'} {self.name!r}"


@dataclass(frozen=True)
class TableHistory:
    """The snapshots of a table, and the conditions that keep them.

    `tiered` is the newest tiering commit. `references` are all except the main branch and the tag of the newest tiering commit.
    `former_heads`: ids from the table's log of heads. `read_snapshots` and `kept_since`: as in `TableInfo`.
    `user_max_age_ms` and `user_min_count` are the table's `history.expire.*`. The fields
    `main_*` are the retention of the main branch. None = not set.
    """

    snapshots: Sequence[TableSnapshot]
    head: int
    tiered: int
    references: Sequence[TableReference] = ()
    former_heads: Collection[int] = ()
    read_snapshots: Collection[int] = ()
    user_max_age_ms: int | None = None
    user_min_count: int | None = None
    main_max_age_ms: int | None = None
    main_min_count: int | None = None
    kept_since: int | None = None

    @property
    def unthinned_ms(self) -> int | None:
        """The age up to which the user keeps every snapshot of the main branch; None = not configured."""
        return max((age for age in (self.user_max_age_ms, self.main_max_age_ms) if age is not None), default=None)


def expired_snapshots(
    history: TableHistory,
    retention: SnapshotRetention,
    now_ms: int,
    *,
    thins: bool = True,
    literal: bool = False,
    limit: int = REMOVED_AT_ONCE,
) -> list[int]:
    """Returns the ids of the snapshots to remove, the oldest first: at most `limit`, or half of all.

    Without `thins` every snapshot within the maximum age stays.

    `literal`: a user named the age, so every older snapshot is removed, also the one that was the head when that age begins.

    Returns an empty list if the newest tiering commit, that of the assignment, or the head is unknown.
    """
    kept = kept_snapshots(history, retention, now_ms, thins=thins, literal=literal)
    removed = [snapshot for snapshot in history.snapshots if snapshot.snapshot_id not in kept]
    at_most = max(limit, len(history.snapshots) // 2)
    return [snapshot.snapshot_id for snapshot in sorted(removed, key=lambda snapshot: snapshot.sequence_number)[:at_most]]


def kept_snapshots(
    history: TableHistory, retention: SnapshotRetention, now_ms: int, *, thins: bool = True, literal: bool = False
) -> Mapping[int, str]:
    """Returns the snapshots that stay, each with the reason as text. The arguments are those of `expired_snapshots`."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in history.snapshots}
    tiered = {history.tiered} if history.kept_since is None else {history.tiered, history.kept_since}
    if not {*tiered, history.head} <= by_id.keys():
        return dict.fromkeys(by_id, UNKNOWN_HEAD)
    floor = min(by_id[snapshot_id].sequence_number for snapshot_id in tiered)
    since = [snapshot.snapshot_id for snapshot in history.snapshots if snapshot.sequence_number >= floor]
    main = _main_branch(history, by_id)
    on_main = {snapshot.snapshot_id for snapshot in main}
    oldest_ms = now_ms - max(retention.max_age_ms, history.unthinned_ms or 0, UNREFERENCED_MAX_AGE_MS)
    staged = [
        snapshot.snapshot_id for snapshot in history.snapshots if snapshot.snapshot_id not in on_main and snapshot.committed_ms >= oldest_ms
    ]
    kept = dict.fromkeys([history.head, *since], NEWEST)
    for more in (
        _kept_by_references(history, by_id, now_ms),
        _kept_of_main(main, history, retention, now_ms, thins=thins, literal=literal),
        dict.fromkeys(staged, OFF_MAIN),
        dict.fromkeys((snapshot for snapshot in history.read_snapshots if snapshot in by_id), OPEN_READS),
    ):
        kept = {**more, **kept}  # the first reason counts
    return kept


def _main_branch(history: TableHistory, by_id: Mapping[int, TableSnapshot]) -> list[TableSnapshot]:
    """Returns all snapshots that are or were on the main branch, newest first. Expiry cuts chains of parents, so these do not tell."""
    former = set(history.former_heads)
    line = {snapshot.snapshot_id for snapshot in _ancestors(history.head, by_id)}
    on_main = [
        snapshot for snapshot in history.snapshots if snapshot.is_of_round or snapshot.snapshot_id in former or snapshot.snapshot_id in line
    ]
    return sorted(on_main, key=lambda snapshot: -snapshot.sequence_number)


def _kept_of_main(
    main: Sequence[TableSnapshot], history: TableHistory, retention: SnapshotRetention, now_ms: int, *, thins: bool, literal: bool
) -> dict[int, str]:
    """Returns the snapshots of `main` that stay, with their reasons. `main` is the main branch, newest first."""
    min_count = max(retention.min_count, history.user_min_count or 0, history.main_min_count or 0)
    unthinned_ms, slot_ms = history.unthinned_ms, max(retention.max_age_ms // SLOTS, 1)
    count_reason = NEWEST_OF_MAIN if min_count == retention.min_count else KEPT_BY_USER
    kept, slots = {snapshot.snapshot_id: count_reason for snapshot in main[:min_count]}, set[int]()
    oldest_ms = now_ms - max(retention.max_age_ms, unthinned_ms or 0)
    if not literal and (begin := next((snapshot for snapshot in main if snapshot.committed_ms < oldest_ms), None)) is not None:
        kept.setdefault(begin.snapshot_id, HEAD_AT_BEGIN)
    for snapshot in main:
        slot = snapshot.committed_ms // slot_ms
        is_last = slot not in slots
        slots.add(slot)
        age_ms = now_ms - snapshot.committed_ms
        if age_ms <= retention.max_age_ms and (is_last or not thins):
            kept.setdefault(snapshot.snapshot_id, YOUNG)
        elif unthinned_ms is not None and age_ms <= unthinned_ms:
            kept.setdefault(snapshot.snapshot_id, KEPT_BY_USER)
    return kept


def _kept_by_references(history: TableHistory, by_id: Mapping[int, TableSnapshot], now_ms: int) -> dict[int, str]:
    kept: dict[int, str] = {}
    for reference in history.references:
        kept.setdefault(reference.snapshot_id, reference.title)
        if reference.is_branch:
            for snapshot_id in _kept_by_branch(reference, history, by_id, now_ms):
                kept.setdefault(snapshot_id, reference.title)
    return kept


def _kept_by_branch(reference: TableReference, history: TableHistory, by_id: Mapping[int, TableSnapshot], now_ms: int) -> Iterable[int]:
    max_age_ms = _first(reference.max_age_ms, history.user_max_age_ms, DEFAULT_BRANCH_MAX_AGE_MS)
    min_count = _first(reference.min_count, history.user_min_count, DEFAULT_BRANCH_MIN_COUNT)
    for position, snapshot in enumerate(_ancestors(reference.snapshot_id, by_id)):
        if position < min_count or snapshot.committed_ms >= now_ms - max_age_ms:
            yield snapshot.snapshot_id


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def _ancestors(snapshot_id: int | None, by_id: Mapping[int, TableSnapshot]) -> Iterator[TableSnapshot]:
    """Yields the snapshot and its ancestors, each once, as far as they are known."""
    visited: set[int] = set()
    while snapshot_id is not None and snapshot_id in by_id and snapshot_id not in visited:
        visited.add(snapshot_id)
        yield by_id[snapshot_id]
        snapshot_id = by_id[snapshot_id].parent_id
