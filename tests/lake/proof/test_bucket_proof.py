"""The chain in the marker: what each round adds to it, when it begins anew, and that the last gate refuses what does not continue it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tiering.errors import RoundFailed
from tiering.lake.base import Committable, LakeView, WriteResult
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import BucketProof, advanced, chain_link
from tiering.lake.rules.commit_check import check_committable
from tiering.model.tables import BucketKey, TablePath

B0, B1 = BucketKey(None, 0), BucketKey(None, 1)
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def result(bucket: BucketKey, start: int, stop: int, checksum: int | None, *empty: tuple[int, int]) -> WriteResult:
    records = stop - start - sum(last - first for first, last in empty)
    return WriteResult(bucket, start, stop, records, 1, 1, b"", checksum=checksum, empty=empty)


def test_rounds_are_counted_summed_and_linked() -> None:
    first = advanced({}, {}, {B0: TieredRange(0, 10)}, [result(B0, 0, 4, 2**64 - 1), result(B0, 4, 10, 3, (6, 8))], "r1")
    assert first == {B0: BucketProof(0, 8, 2, chain_link("", "r1", 10, 8, 2, [(6, 8)]), ((6, 8),))}
    after = {B0: TieredRange(0, 12), B1: TieredRange(5, 6)}
    second = advanced(first, {B0: TieredRange(0, 10)}, after, [result(B1, 5, 6, 9), result(B0, 10, 12, 0, (10, 12))], "r2")
    assert second[B0] == BucketProof(0, 8, 2, chain_link(first[B0].chain, "r2", 12, 8, 2, [(6, 8), (10, 12)]), ((6, 8), (10, 12)))
    assert second[B1].since == 5


def test_a_bucket_that_stands_still_keeps_its_proof_and_one_that_moves_unproved_loses_it() -> None:
    before = {B0: TieredRange(0, 10), B1: TieredRange(0, 10)}
    proofs = {B0: BucketProof(0, 10, 1, "a"), B1: BucketProof(0, 10, 2, "b")}
    assert advanced(proofs, before, {**before, B1: TieredRange(0, 20)}, [], "r") == {B0: proofs[B0]}
    assert advanced(proofs, before, {**before, B1: TieredRange(0, 20)}, [result(B1, 10, 20, None)], "r") == {B0: proofs[B0]}
    assert advanced({}, before, {B1: TieredRange(0, 20)}, [result(B1, 10, 20, 5)], "r")[B1].since == 10


@pytest.mark.parametrize("proof", [BucketProof(5), BucketProof(0, 17, 2**64 - 1, "ab12", ((4, 7), (9, 10)))])
def test_a_proof_as_text_comes_back(proof: BucketProof) -> None:
    assert BucketProof.parse(proof.text) == proof


def test_files_and_chain_that_do_not_agree_are_not_committed() -> None:
    base = LakeView(TablePath("sales", "orders"), "uuid", None, None, None, {})
    results = (result(B0, 0, 4, 7),)
    ranges = {B0: TieredRange(0, 4)}
    marker = Marker("c", 1, "uuid", "r1", 1, None, ranges, proofs=advanced({}, {}, ranges, results, "r1"))
    check_committable(Committable("r1", results), base, marker)
    for wrong in (replace(marker, proofs={}), replace(marker, proofs={B0: replace(marker.proofs[B0], rows=5)})):
        with pytest.raises(RoundFailed, match="do not lead from the base's chain to the marker's"):
            check_committable(Committable("r1", results), base, wrong)
    with pytest.raises(RoundFailed, match="do not lead"):
        check_committable(Committable("r1", (replace(results[0], checksum=8),)), base, marker)
