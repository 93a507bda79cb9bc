"""Whether the rows of a clean log table are exactly those that a marker proves, although some of them tell no offsets. Pure.

A file that somebody else wrote, as a compaction does, has no footer of Lakeward's, so its rows tell no offsets. The marker's proof counts
the rows that rounds wrote to a bucket, sums their checksums, and names the offsets without a row (`proof.bucket_proof`). If count and
checksum of all rows that stand in the table are those of the marker's buckets, the rows are exactly those that the marker names. So they
have its offsets, and tiering can continue at its ends. Rows that a user deleted or added make the sums differ: then nothing is proved.

The other way round, a marker that goes on behind rows which no marker counted exactly so gets proofs from their footers. A rolled back
branch whose newest files somebody removed ends where no round ended. Its files still say what rows they have, so the counts, the checksum
and the ranges without rows are those of the files, and the chain goes on from the base's, as after a round.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tiering.lake.base import LakeView
from tiering.lake.foreign import CleanRows
from tiering.lake.maintenance import LakeSurvey
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import BucketProof, chain_link
from tiering.lake.proof.change_sums import RowSum
from tiering.lake.proof.file_footer import without
from tiering.lake.rules.contiguous_offsets import Place, RowOffsets
from tiering.lake.rules.reconcile import Ranges
from tiering.model.tables import BucketKey


@dataclass(frozen=True)
class ProvedRows:
    """The offsets of the rows that stand in a table, and the marker that proves them."""

    marker: Marker
    held: RowOffsets


def proving_markers(survey: LakeSurvey, buckets: Collection[BucketKey], recorded: Marker | None = None) -> list[Marker]:
    """The readable markers of this lake table that prove all rows of these buckets, the likeliest first.

    `recorded`: the newest one as the coordinator knows it, for a lake table whose newest tiering commit expired.
    A lake that says how many rows the table has rules out markers of another number, before any row is read.
    """
    markers: list[Marker] = []
    for marker in survey.markers if recorded is None else (*survey.markers, recorded):
        if marker.lake_table_uuid != survey.view.table_uuid:
            continue
        proofs = _proofs(marker, buckets)
        is_partitioned = any(bucket.partition_id is not None for bucket in marker.buckets)
        rows = None if is_partitioned else survey.view.records  # rows of partitions that are gone count, too
        if proofs is not None and rows in (None, sum(proof.rows for proof in proofs.values())):
            markers.append(marker)
    return markers


def proved_rows(markers: Sequence[Marker], places: Mapping[BucketKey, Place], standing: Sequence[CleanRows]) -> ProvedRows | None:
    """The first of `markers` whose proofs are those of the rows that stand in the table; None if there is none."""
    for marker in markers:
        proofs = _proofs(marker, places.keys())
        if proofs is not None and _are_equal(proofs, standing):
            held = RowOffsets()
            for bucket, proof in proofs.items():
                reached = marker.buckets[bucket]
                for start, stop in without(reached.start, reached.tiered, proof.empty):
                    held.add_run(places[bucket], start, stop)
            return ProvedRows(marker, held)
    return None


def _proofs(marker: Marker, buckets: Collection[BucketKey]) -> dict[BucketKey, BucketProof] | None:
    """The proof of each of the marker's buckets among `buckets`; None if one of them has no proof from its first offset on."""
    proofs: dict[BucketKey, BucketProof] = {}
    for bucket, reached in marker.buckets.items():
        if bucket not in buckets:
            continue
        proof = marker.proofs.get(bucket, _nothing(reached))
        if proof is None or proof.since != reached.start:
            return None
        proofs[bucket] = proof
    return proofs


def _nothing(reached: TieredRange) -> BucketProof | None:
    """The proof of a bucket to which nothing was tiered."""
    return BucketProof(reached.start) if reached.start == reached.tiered else None


def _are_equal(proofs: Mapping[BucketKey, BucketProof], standing: Sequence[CleanRows]) -> bool:
    proved = set[BucketKey]()
    for scope in standing:
        members = [bucket for bucket in proofs if scope.has(bucket)]
        total = sum((RowSum(proofs[bucket].rows, proofs[bucket].checksum) for bucket in members), RowSum())
        if total != scope.sums.living:
            return False
        proved.update(members)
    return all(bucket in proved or proof.rows == 0 for bucket, proof in proofs.items())


def rebuilt_proofs(
    view: LakeView, round_id: str, places: Mapping[BucketKey, Place], ranges: Ranges, held: RowOffsets
) -> dict[BucketKey, BucketProof]:
    """Of the buckets whose rows `held` are all those of `ranges`, each offset between them being known to be without a row.

    Without those of which rows are dead in files that are there: no footer has the checksum of the rest.
    """
    before = {} if view.marker is None else view.marker.proofs
    proofs: dict[BucketKey, BucketProof] = {}
    for bucket, reached in ranges.items():
        written = held.written(places[bucket])
        if written is None or written.checksum is None:
            continue
        empty = without(reached.start, reached.tiered, held.runs(places[bucket]))
        former = before[bucket].chain if bucket in before and before[bucket].since == reached.start else ""
        chain = chain_link(former, round_id, reached.tiered, written.rows, written.checksum, empty)
        proofs[bucket] = BucketProof(reached.start, written.rows, written.checksum, chain, empty)
    return proofs
