"""The statistics of one commit's upkeep."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tiering.lake.base import Committable
from tiering.lake.iceberg.commit.staging import StagedSnapshot
from tiering.model.upkeep import UpkeepStats


def upkeep_stats(committable: Committable, kept: Collection[int], staged: StagedSnapshot, snapshots_expired: int) -> UpkeepStats | None:
    """Returns the statistics of a commit with those of its rewrites whose numbers are in `kept`; None if it only added rows.

    A commit that merges all manifests always has statistics, so its caller learns if their number did not fall.

    Files that a primary-key bucket's own round rewrote are counted from `staged`, because the new files also hold the round's rows.
    """
    rewrites = committable.rewrites
    committed = [rewrites[number] for number in sorted(kept)]
    in_round = staged.rewritten
    stats = UpkeepStats(
        files_before=sum(rewrite.files_before for rewrite in committed) + in_round.files_before,
        files_after=sum(rewrite.files_after for rewrite in committed) + in_round.files_after,
        bytes_read=sum(rewrite.bytes_before for rewrite in committed) + in_round.bytes_before,
        bytes_written=sum(rewrite.bytes_after for rewrite in committed) + in_round.bytes_after,
        rows_dropped=sum(rewrite.rows_dropped for rewrite in committed),
        snapshots_expired=snapshots_expired,
        dropped=len(rewrites) - len(committed),
    )
    merges_all = committable.order is not None and committable.order.manifests
    if stats == UpkeepStats() and not merges_all and staged.manifests_after >= staged.manifests_before:
        return None
    return replace(stats, manifests_before=staged.manifests_before, manifests_after=staged.manifests_after)
