"""Whether the rows of a clean log table are exactly those that a marker proves, although some of them carry no offsets. Pure.

A file that another writer made, such as a compaction, has no footer of Lakeward's, so its rows carry no offsets. The marker's proof counts
the rows that rounds wrote to a bucket, sums their checksums, and names the offsets without a row (`proof.bucket_proof`). If the live rows
of the table have the count and the checksum of the marker's buckets, they are exactly the rows that the marker names. So they have its
offsets, and tiering can continue at its ends. Rows that a user deleted or added make the sums differ: then nothing is proved.

Rows of backfills (`proof.backfilled_rows`) have no offsets either. The marker counts them apart, and both together must be the live rows.

The reverse case is a marker whose ends are those of files, and of no earlier marker: for example after a roll-back of a branch whose
newest files were removed, which ends where no round ended. The footers of the files tell their rows. So counts, checksum and empty ranges
of the new proofs come from the files, and their chain continues the base's chain, as after a round.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tiering.lake.base import LakeView
from tiering.lake.foreign import CleanRows
from tiering.lake.maintenance import LakeSurvey
from tiering.lake.marker import Marker
from tiering.lake.proof.backfilled_rows import BackfilledBucket
from tiering.lake.proof.bucket_proof import BucketProof, chain_link
from tiering.lake.proof.change_sums import RowSum
from tiering.lake.proof.file_footer import without
from tiering.lake.rules.contiguous_offsets import Place, RowOffsets
from tiering.lake.rules.reconcile import Ranges
from tiering.model.tables import BucketKey


@dataclass(frozen=True)
class ProvedRows:
    """The offsets of a table's live rows, and the marker that proves them."""

    marker: Marker
    lake_rows: RowOffsets


def proving_markers(survey: LakeSurvey, buckets: Collection[BucketKey], recorded: Marker | None = None) -> list[Marker]:
    """Returns the readable markers of this lake table that prove all rows of these buckets, the likeliest first.

    `recorded` is the newest marker in the coordinator's records, for a lake table whose newest tiering commit expired. If the lake tells
    its number of rows, markers with another number are ruled out before any row is read.
    """
    markers: list[Marker] = []
    for marker in survey.markers if recorded is None else (*survey.markers, recorded):
        if marker.lake_table_uuid != survey.view.table_uuid:
            continue
        proofs = _proofs(marker, buckets)
        is_partitioned = any(bucket.partition_id is not None for bucket in marker.buckets)
        rows = None if is_partitioned else survey.view.records  # the lake's number includes rows of dropped partitions
        backfilled = sum(backfill.sums.rows for backfill in marker.backfills)
        if proofs is not None and rows in (None, sum(proof.rows for proof in proofs.values()) + backfilled):
            markers.append(marker)
    return markers


def proved_rows(markers: Sequence[Marker], places: Mapping[BucketKey, Place], live_rows: Sequence[CleanRows]) -> ProvedRows | None:
    """Returns the offsets by the first of `markers` that proves the live rows of the table; None if none of them does."""
    for marker in markers:
        proofs = _proofs(marker, places.keys())
        if proofs is not None and _are_equal(proofs, live_rows, _Backfilled.of(marker, places)):
            lake_rows = RowOffsets()
            for bucket, proof in proofs.items():
                reached = marker.buckets[bucket]
                for start, stop in without(reached.start, reached.tiered, proof.empty):
                    lake_rows.add_run(places[bucket], start, stop)
            return ProvedRows(marker, lake_rows)
    return None


def _proofs(marker: Marker, buckets: Collection[BucketKey]) -> dict[BucketKey, BucketProof] | None:
    """Returns the proofs of the marker's buckets that are in `buckets`; None if one of them has no proof from its first offset on."""
    proofs: dict[BucketKey, BucketProof] = {}
    for bucket, reached in marker.buckets.items():
        if bucket not in buckets:
            continue
        proof = marker.proofs.get(bucket)
        if proof is None and reached.start == reached.tiered:
            proof = BucketProof(reached.start)
        if proof is None or proof.since != reached.start:
            return None
        proofs[bucket] = proof
    return proofs


@dataclass(frozen=True)
class _Backfilled:
    """The backfilled rows of living partitions. `names`: their names by id."""

    names: Mapping[int | None, str]
    buckets: Sequence[BackfilledBucket]

    @staticmethod
    def of(marker: Marker, places: Mapping[BucketKey, Place]) -> _Backfilled:
        names = {bucket.partition_id: name or "" for bucket, (name, _) in places.items()}
        buckets = (part for backfill in marker.backfills for part in backfill.buckets)
        return _Backfilled(names, [part for part in buckets if part.partition_name in names.values()])

    def within(self, scope: CleanRows) -> list[BackfilledBucket]:
        """Returns the buckets in the scope."""
        name = self.names.get(scope.partition_id)
        return [part for part in self.buckets if part.partition_name == name and scope.bucket_id in (None, part.bucket_id)]


def _are_equal(proofs: Mapping[BucketKey, BucketProof], live_rows: Sequence[CleanRows], backfilled: _Backfilled) -> bool:
    proved, proved_backfills = set[BucketKey](), list[BackfilledBucket]()
    for scope in live_rows:
        members = [bucket for bucket in proofs if scope.has(bucket)]
        copied = backfilled.within(scope)
        sums = [RowSum(proofs[bucket].rows, proofs[bucket].checksum) for bucket in members]
        total = sum((*sums, *(part.sums for part in copied)), RowSum())
        if total != scope.sums.living:
            return False
        proved.update(members)
        proved_backfills += copied
    return len(proved_backfills) == len(backfilled.buckets) and all(bucket in proved or proof.rows == 0 for bucket, proof in proofs.items())


def rebuilt_proofs(
    view: LakeView, round_id: str, places: Mapping[BucketKey, Place], ranges: Ranges, lake_rows: RowOffsets
) -> dict[BucketKey, BucketProof]:
    """Returns new proofs of the buckets whose rows fill `ranges`. Each offset in between must be known to be without a row.

    Leaves out buckets that have files with deleted rows: no footer has the checksum of the remaining rows.
    """
    before = {} if view.marker is None else view.marker.proofs
    proofs: dict[BucketKey, BucketProof] = {}
    for bucket, reached in ranges.items():
        written = lake_rows.written(places[bucket])
        if written is None or written.checksum is None:
            continue
        empty = without(reached.start, reached.tiered, lake_rows.runs(places[bucket]))
        former = before[bucket].chain if bucket in before and before[bucket].since == reached.start else ""
        chain = chain_link(former, round_id, reached.tiered, written.rows, written.checksum, empty)
        proofs[bucket] = BucketProof(reached.start, written.rows, written.checksum, chain, empty)
    return proofs
