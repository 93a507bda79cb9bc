"""What happened to a lake table's main branch since its marker was set. Pure (DESIGN 6 step 2).

Sequence numbers grow with every commit to a table (Iceberg spec, "Sequence Numbers"), so a chain of parents that starts
at the head and passes below the tag's sequence number without meeting the tag has left the marker out. Expiry cuts such
chains, and some engines then clear the parent of the first snapshot that is kept: a chain that ends above the tag
decides nothing.
"""

from __future__ import annotations

from tiering.errors import ForeignTiering, HistoryExpired, LakeRolledBack
from tiering.lake.base import FLUSS_COMMIT_USER, TAG, LakeSnapshot, LakeView
from tiering.lake.rules.hints import go_on_hint, reconcile_call, tier_call


def check_history(view: LakeView, tag: int, passed_head: int | None) -> None:
    """Passes if the head descends from the tag, or from a head that passed this check since the tag was set.

    Raises LakeRolledBack if it does not, ForeignTiering if another tiering service committed in between, HistoryExpired
    if the snapshots that would tell are gone.
    """
    tagged = view.snapshots[tag]
    _check_newest_round(view, tag, tagged.sequence_number)
    if view.head is None:
        raise _rolled_back(view, tag, "its main branch has no snapshot")
    visited: set[int] = set()
    current: int | None = view.head
    while current is not None and current not in visited:
        visited.add(current)
        if current == tag:
            return
        snapshot = view.snapshots.get(current)
        if snapshot is None:
            break
        if snapshot.sequence_number <= tagged.sequence_number:
            raise _rolled_back(view, tag, f"its main branch at {view.head} goes back to the older snapshot {current}")
        if is_foreign_tiering(snapshot):
            raise foreign_tiering(view, snapshot)
        if current == passed_head:
            return
        current = snapshot.parent_id
    raise _expired(view, tag)


def is_foreign_tiering(snapshot: LakeSnapshot) -> bool:
    """Whether Fluss's own tiering made it: then it holds log rows that our marker does not count."""
    return snapshot.commit_user == FLUSS_COMMIT_USER and snapshot.round_id is None


def foreign_tiering(view: LakeView, snapshot: LakeSnapshot) -> ForeignTiering:
    """The error for `snapshot`."""
    return ForeignTiering(
        f"another tiering service committed snapshot {snapshot.snapshot_id} to the lake table {view.path} at {snapshot.committed_at}",
        hint="Only one service may tier a table: stop the other one. Then take over what it wrote: "
        f"{reconcile_call(view.path, 'adopt')}, or, if its offsets cannot be read, {reconcile_call(view.path, 'retier')}. Or, if Lakeward "
        f"tiered the table before, set its main branch back to the snapshot that the tag {TAG} names, then {tier_call(view.path)}.",
        table_path=view.path,
        lake_snapshot_id=snapshot.snapshot_id,
    )


def _check_newest_round(view: LakeView, tag: int, tag_sequence: int) -> None:
    """Every commit of a round moves the tag with it: one above the tag means that the tag was moved back by hand."""
    newer = [snapshot for snapshot in view.snapshots.values() if snapshot.round_id is not None and snapshot.sequence_number > tag_sequence]
    if newer:
        newest = max(newer, key=lambda snapshot: snapshot.sequence_number)
        raise LakeRolledBack(
            f"the tag {TAG} of the lake table {view.path} was moved back: it names snapshot {tag}, but round {newest.round_id} "
            f"wrote the newer snapshot {newest.snapshot_id}",
            hint=f"Set the tag, and the main branch if it was moved too, on snapshot {newest.snapshot_id} again, then "
            f"{tier_call(view.path)}. Or keep it as it is: "
            + go_on_hint(view, view.path, "missing rows are tiered again", "they stay out"),
            table_path=view.path,
            lake_snapshot_id=newest.snapshot_id,
        )


def _rolled_back(view: LakeView, tag: int, why: str) -> LakeRolledBack:
    return LakeRolledBack(
        f"the lake table {view.path} was rolled back behind its marker: the tag {TAG} names snapshot {tag}, but {why}",
        hint=f"Set the main branch on snapshot {tag} again (in Spark: CALL <lake catalog>.system.set_current_snapshot), then "
        f"{tier_call(view.path)}. Or keep it rolled back: " + go_on_hint(view, view.path, "missing rows are tiered again", "they stay out"),
        table_path=view.path,
        lake_snapshot_id=tag,
    )


def _expired(view: LakeView, tag: int) -> HistoryExpired:
    return HistoryExpired(
        f"cannot tell whether the lake table {view.path} was rolled back: snapshots between its head {view.head} and snapshot {tag}, "
        f"which the tag {TAG} names, are gone; they expired, or the table was replaced",
        hint=f"Set the main branch on snapshot {tag} (in Spark: CALL <lake catalog>.system.set_current_snapshot), then "
        f"{tier_call(view.path)}; what was written to the lake table by hand since is then left out. Or go on with it as it is: "
        + go_on_hint(view, view.path, "from the rows it holds", "from the recorded offsets"),
        table_path=view.path,
        lake_snapshot_id=tag,
    )
