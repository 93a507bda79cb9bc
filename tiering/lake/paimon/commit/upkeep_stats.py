"""What one commit did for the upkeep of its table, as its stats tell it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tiering.lake.base import FileRewrite
from tiering.lake.paimon.commit.manifests import ManifestLists
from tiering.model.upkeep import UpkeepStats


def upkeep_stats(
    rewrites: Sequence[FileRewrite], kept: Collection[int], lists: ManifestLists, snapshots_expired: int
) -> UpkeepStats | None:
    """The stats of a commit with those of `rewrites` whose numbers are `kept`; None if it only added rows."""
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
    if stats == UpkeepStats() and lists.manifests_after >= lists.manifests_before:
        return None
    return replace(stats, manifests_before=lists.manifests_before, manifests_after=lists.manifests_after)
