"""The last check before a commit: the files agree with the marker, and the marker continues the one of the base. Pure.

A commit that passes continues the chain of markers, and its files hold exactly the rows by which its marker is ahead of the base's.
This holds whatever went wrong before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tiering.errors import Fenced, LakeTableReplaced, RoundFailed
from tiering.lake.base import Committable, LakeView, WriteResult
from tiering.lake.marker import Marker
from tiering.lake.proof.bucket_proof import advanced
from tiering.lake.rules.hints import replaced_hint
from tiering.model.tables import BucketKey


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
