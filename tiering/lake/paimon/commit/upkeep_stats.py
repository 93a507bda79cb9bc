"""The upkeep statistics of one commit."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tiering.lake.base import Committable
from tiering.lake.paimon.commit.manifests import ManifestLists
from tiering.model.upkeep import UpkeepStats


def upkeep_stats(committable: Committable, kept: Collection[int], lists: ManifestLists, snapshots_expired: int) -> UpkeepStats | None:
    """Returns the statistics of a commit with the rewrites whose numbers are in `kept`; None if it only added rows.

    A commit that merges all manifests always has statistics, so that its caller learns when their number did not decrease.
    """
    rewrites = committable.rewrites
    committed = [rewrites[number] for number in kept]
    stats = UpkeepStats(
        files_before=sum(rewrite.files_before for rewrite in committed),
        files_after=sum(rewrite.files_after for rewrite in committed),
        bytes_read=sum(rewrite.bytes_before for rewrite in committed),
        bytes_written=sum(rewrite.bytes_after for rewrite in committed),
        rows_dropped=sum(rewrite.rows_dropped for rewrite in committed),
        snapshots_expired=snapshots_expired,
        dropped=len(rewrites) - len(committed),
    )
    merges_all = committable.order is not None and committable.order.manifests
    if stats == UpkeepStats() and not merges_all and lists.manifests_after >= lists.manifests_before:
        return None
    return replace(stats, manifests_before=lists.manifests_before, manifests_after=lists.manifests_after)
