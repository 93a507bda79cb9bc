"""The check of a lake table's main branch since its newest tiering commit. Pure (DESIGN 6 step 2).

The format says which commit is the newest tiering commit (`LakeView.tiered`). The head has to descend from it, or from a head that an
earlier check passed. The walk from the head follows parents. It ends in one of four ways:

    it meets the tiering commit, or the passed head          the check passes
    it meets a snapshot with a lower sequence number         LakeRolledBack: sequence numbers grow with every commit (Iceberg spec,
                                                             "Sequence Numbers"), so this line has left the tiering commit out
    it meets a commit of another tiering service             ForeignTiering
    a parent is unknown                                      HistoryExpired: nothing is decided

Expiry removes snapshots between the head and the tiering commit, and some engines then clear the parent of the first snapshot that is
kept. So the format adds what it knows of expired snapshots (`LakeView.expired`). Iceberg knows them from the table's former metadata
files (`iceberg.reading.expired_snapshots`).

A table that was rolled back never passes. A parent is a fact that its commit wrote, and no later operation changes it: expiry can only
hide it. A roll-back sets the head on an older snapshot, and every commit after it has that snapshot among its ancestors, whatever is
compacted and expired later. The walk passes only where it reaches the tiering commit over known parents, so it cannot start from such
a commit. Contents decide nothing here: users may delete rows, so rows that are missing are no sign of a roll-back.
"""

from __future__ import annotations

from tiering.errors import ForeignTiering, HistoryExpired, LakeRolledBack
from tiering.lake.base import FLUSS_COMMIT_USER, LakeSnapshot, LakeView
from tiering.lake.rules.hints import continue_hint, newest_tiering_commit, reconcile_call, set_head_back, tier_call


def check_history(view: LakeView, tiered: int, passed_head: int | None) -> None:
    """Checks that the head descends from `tiered`, the newest tiering commit, or from a head that passed this check since.

    Raises LakeRolledBack if it does not, ForeignTiering if another tiering service committed in between, and HistoryExpired if the parents
    of the snapshots in between are unknown.
    """
    newest = view.snapshots[tiered]
    check_newest_round(view, newest)
    if view.head is None:
        raise rolled_back(view, tiered, "its main branch has no snapshot")
    for snapshot in view.line():
        if snapshot.snapshot_id == tiered:
            return
        if snapshot.sequence_number <= newest.sequence_number:
            raise rolled_back(view, tiered, f"its main branch at {view.head} goes back to the older snapshot {snapshot.snapshot_id}")
        if is_foreign_tiering(snapshot):
            raise foreign_tiering(view, snapshot)
        if snapshot.identity == passed_head:
            return
    raise expired(view, tiered)


def is_undecided(view: LakeView) -> bool:
    """Whether the walk ends undecided, because parents between the head and the newest tiering commit are unknown."""
    newest = view.ancestor(view.tiered)
    if newest is None or view.head is None:
        return False
    return all(snapshot.sequence_number > newest.sequence_number for snapshot in view.line())


def is_foreign_tiering(snapshot: LakeSnapshot) -> bool:
    """Whether Fluss's own tiering made the snapshot. It then holds log rows that Lakeward's marker does not count."""
    return snapshot.commit_user == FLUSS_COMMIT_USER and snapshot.round_id is None


def foreign_tiering(view: LakeView, snapshot: LakeSnapshot) -> ForeignTiering:
    """Returns the error for a foreign tiering snapshot."""
    newest = "newest snapshot that it tiered" if view.reference is None else f"snapshot that the {view.reference} names"
    return ForeignTiering(
        f"another tiering service (commit user {snapshot.commit_user}, that of Fluss's own) committed snapshot {snapshot.snapshot_id} to "
        f"the lake table {view.path} at {snapshot.committed_at}",
        hint="Only one service may tier a table: stop the other one. Then take over what it wrote: "
        f"{reconcile_call(view.path, 'adopt')}, or, if its offsets cannot be read, {reconcile_call(view.path, 'retier')}. Or, if Lakeward "
        f"tiered the table before, set its main branch back to the {newest}, then {tier_call(view.path)}.",
        table_path=view.path,
        lake_snapshot_id=snapshot.snapshot_id,
    )


def check_newest_round(view: LakeView, tiered: LakeSnapshot) -> None:
    """Raises LakeRolledBack if a round's snapshot is newer than `tiered`: a user moved the format's reference back."""
    later = (snapshot for snapshot in view.snapshots.values() if snapshot.sequence_number > tiered.sequence_number)
    newer = [snapshot for snapshot in later if snapshot.round_id is not None]
    if newer:
        newest = max(newer, key=lambda snapshot: snapshot.sequence_number)
        reference = view.reference or "newest tiering commit"
        raise LakeRolledBack(
            f"the {reference} of the lake table {view.path} was moved back: it names snapshot {tiered.snapshot_id}, but round "
            f"{newest.round_id} wrote the newer snapshot {newest.snapshot_id}",
            hint=f"Set the {view.reference or 'table'}, and the main branch if it was moved too, to snapshot {newest.snapshot_id} again, "
            f"then {tier_call(view.path)}. Or keep it as it is: " + continue_hint(view, "missing rows are tiered again", "they stay out"),
            table_path=view.path,
            lake_snapshot_id=newest.snapshot_id,
        )


def rolled_back(view: LakeView, tiered: int, why: str) -> LakeRolledBack:
    """Returns the error for a main branch that does not descend from the newest tiering commit. `why` is a clause."""
    return LakeRolledBack(
        f"the lake table {view.path} was rolled back behind its marker: {newest_tiering_commit(view)}, but {why}",
        hint=f"{set_head_back(view, f'snapshot {tiered} again')}, then "
        f"{tier_call(view.path)}. Or keep it rolled back: " + continue_hint(view, "missing rows are tiered again", "they stay out"),
        table_path=view.path,
        lake_snapshot_id=tiered,
    )


def expired(view: LakeView, tiered: int, *, may_accept: bool = True) -> HistoryExpired:
    """Returns the error for a chain of snapshots with unknown parents.

    `may_accept` is False if another service may have doubled keys or set them back: the hint then leaves out `accept`.
    """
    as_it_is = continue_hint(view)
    newest = "its newest tiering commit" if view.reference is None else f"which the {view.reference} names"
    return HistoryExpired(
        f"cannot tell whether the lake table {view.path} was rolled back: snapshots between its head {view.head} and snapshot {tiered}, "
        f"{newest}, are gone, and their parents are unknown; they expired, or the table was replaced",
        hint=f"{set_head_back(view, f'snapshot {tiered}')}, then "
        f"{tier_call(view.path)}; this leaves out what users wrote to the lake table since. Or "
        + (f"keep it as it is: {as_it_is}" if may_accept else f"{reconcile_call(view.path, 'retier')} (all keys are written again)."),
        table_path=view.path,
        lake_snapshot_id=tiered,
    )
