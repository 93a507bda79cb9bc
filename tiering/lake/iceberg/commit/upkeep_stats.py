"""What one commit did for the upkeep of its table, as its stats tell it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tiering.lake.base import FileRewrite
from tiering.lake.iceberg.commit.staging import StagedSnapshot
from tiering.model.upkeep import UpkeepStats


def upkeep_stats(
    rewrites: Sequence[FileRewrite], kept: Collection[int], staged: StagedSnapshot, snapshots_expired: int
) -> UpkeepStats | None:
    """The stats of a commit with those of `rewrites` whose numbers are `kept`; None if it only added rows.

    Files that a primary-key bucket's own round wrote anew are counted as `staged` tells: the new ones hold the rows of the round, too.
    """
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
    if stats == UpkeepStats() and staged.manifests_after >= staged.manifests_before:
        return None
    return replace(stats, manifests_before=staged.manifests_before, manifests_after=staged.manifests_after)
