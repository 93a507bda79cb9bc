"""The checks and the outcome of a commit in any lake format. Pure.

The last check before a commit: the files agree with the marker, and the marker continues the one of the base.

A commit that passes continues the chain of markers, and its files hold exactly the rows by which its marker is ahead of the base's.
This holds whatever went wrong before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from tiering.errors import CommitOutcomeUnknown, Fenced, LakeTableReplaced, RoundFailed
from tiering.lake.base import Committable, LakeView, WriteResult
from tiering.lake.marker import Marker
from tiering.lake.outside_errors import describe
from tiering.lake.proof.bucket_proof import advanced
from tiering.lake.rules.hints import replaced_hint
from tiering.model.tables import BucketKey
from tiering.model.upkeep import NO_UPKEEP, UpkeepStats


def check_committable(committable: Committable, base: LakeView, marker: Marker) -> None:
    """Checks a commit. Raises LakeTableReplaced (another lake table), Fenced (another round is the base) or RoundFailed (the files and the
    marker disagree)."""
    if marker.lake_table_uuid != base.table_uuid:
        raise LakeTableReplaced(
            f"round {marker.round_id} wrote for the lake table {marker.lake_table_uuid}; {base.path} is now {base.table_uuid}",
            hint=replaced_hint(base.path),
            table_path=base.path,
            round_id=marker.round_id,
        )
    base_round = None if base.marker is None else base.marker.round_id
    if marker.base_round_id != base_round:
        raise Fenced(
            f"round {marker.round_id} was built on round {marker.base_round_id}, but the lake table {base.path} is at round {base_round}",
            table_path=base.path,
            round_id=marker.round_id,
        )
    if committable.round_id != marker.round_id:
        raise _disagree(marker, f"the files are those of round {committable.round_id}")
    before = base.ranges
    if committable.order is not None and dict(marker.buckets) != dict(before):
        raise _disagree(marker, "it is an upkeep round, and its marker has other offsets than its base")
    proofs = advanced(base.proofs, before, marker.buckets, committable.results, marker.round_id)
    for bucket, results in _by_bucket(committable.results).items():
        after = marker.buckets.get(bucket)
        if after is None and all(not result.records and result.starting_offset == result.reached_offset for result in results):
            continue  # the round only empties this bucket; its tiering begins again
        if after is None:
            raise _disagree(marker, f"the marker does not have bucket {bucket}")
        if marker.proofs.get(bucket) != proofs.get(bucket):
            raise _disagree(marker, f"the checksums of the files of bucket {bucket} do not lead from the base's chain to the marker's")
        reached = before[bucket].tiered if bucket in before else after.start
        for result in results:
            if result.starting_offset != reached:
                raise _disagree(marker, f"bucket {bucket} continues at offset {result.starting_offset}, not at {reached}")
            reached = result.reached_offset
        if reached != after.tiered:
            raise _disagree(marker, f"the files of bucket {bucket} reach offset {reached}, the marker says {after.tiered}")


def check_target(round_id: str, lake_table_uuids: Iterable[str], base: LakeView) -> None:
    """Raises LakeTableReplaced unless the files were written for the lake table `base`."""
    for uuid in lake_table_uuids:
        if uuid != base.table_uuid:
            raise LakeTableReplaced(
                f"files of round {round_id} were written for the lake table {uuid}, but {base.path} is now {base.table_uuid}",
                hint=replaced_hint(base.path),
                table_path=base.path,
            )


def check_none_missing(round_id: str, base: LakeView, missing: Sequence[str]) -> None:
    """Raises RoundFailed if files are gone. An orphan clean-up may have deleted them while this process was suspended for days."""
    if missing:
        raise RoundFailed(
            f"{len(missing)} files of round {round_id} are missing or changed; the first one is {missing[0]}",
            cause_class="DataFilesMissing",
            hint="Nothing was committed; the next round writes them again. Check whether a clean-up job deletes files that no snapshot "
            "names yet.",
            table_path=base.path,
            round_id=round_id,
        )


def outcome_unknown(round_id: str, base: LakeView, snapshot_id: int, error: BaseException) -> CommitOutcomeUnknown:
    """Returns the error for a request that was sent and failed: it may have landed."""
    return CommitOutcomeUnknown(
        f"the commit of round {round_id} to {base.path} was sent, but its outcome is unknown: {describe(error)}",
        hint="Lakeward reads the lake again to learn the outcome.",
        table_path=base.path,
        round_id=round_id,
        lake_snapshot_id=snapshot_id,
    )


def upkeep_stats(
    committable: Committable,
    kept: Collection[int],
    snapshots_expired: int,
    manifests: tuple[int, int],
    in_round: UpkeepStats = NO_UPKEEP,
) -> UpkeepStats | None:
    """Returns the statistics of a commit with those of its rewrites whose numbers are in `kept`; None if it only added rows.

    `manifests`: their number before and after. A commit that merges all manifests always has statistics, so its caller learns if their
    number did not fall. `in_round`: the files that the round itself rewrote together with its rows.
    """
    rewrites = committable.rewrites
    committed = [rewrites[number] for number in kept]
    stats = UpkeepStats(
        files_before=sum(rewrite.files_before for rewrite in committed) + in_round.files_before,
        files_after=sum(rewrite.files_after for rewrite in committed) + in_round.files_after,
        bytes_read=sum(rewrite.bytes_before for rewrite in committed) + in_round.bytes_read,
        bytes_written=sum(rewrite.bytes_after for rewrite in committed) + in_round.bytes_written,
        rows_dropped=sum(rewrite.rows_dropped for rewrite in committed),
        snapshots_expired=snapshots_expired,
        dropped=len(rewrites) - len(committed),
    )
    merges_all, (before, after) = committable.order is not None and committable.order.manifests, manifests
    if stats == NO_UPKEEP and not merges_all and after >= before:
        return None
    return replace(stats, manifests_before=before, manifests_after=after)


def _by_bucket(results: Iterable[WriteResult]) -> dict[BucketKey, list[WriteResult]]:
    buckets: dict[BucketKey, list[WriteResult]] = defaultdict(list)
    for result in sorted(results, key=lambda entry: (entry.starting_offset, entry.reached_offset)):
        buckets[result.bucket].append(result)
    return buckets


def _disagree(marker: Marker, complaint: str) -> RoundFailed:
    return RoundFailed(
        f"round {marker.round_id} was not committed because its files and its marker disagree: {complaint}",
        cause_class="InconsistentRound",
        hint="Nothing was committed; the next round retries. This is a defect of Lakeward: please report it.",
        round_id=marker.round_id,
    )
