"""The proofs of a marker that goes on behind rows of a clean log table which no marker counted exactly so. Pure.

A rolled back branch whose newest files somebody removed ends where no round ended. Its files still say what rows they have, so the counts,
the checksum and the ranges without rows are those of the files, and the chain goes on from the base's, as after a round.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiering.lake.base import LakeView
from tiering.lake.proof.bucket_proof import BucketProof, chain_link
from tiering.lake.proof.file_footer import without
from tiering.lake.rules.contiguous_offsets import Place, RowOffsets
from tiering.lake.rules.reconcile import Ranges
from tiering.model.tables import BucketKey


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
