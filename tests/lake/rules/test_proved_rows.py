"""Whether rows that tell no offsets are exactly those that a marker proves, over sums made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from support.lakes.lake_views import B0, B1, MARKER, view
from tiering.lake.base import LakeView
from tiering.lake.foreign import CleanRows
from tiering.lake.maintenance import LakeSurvey
from tiering.lake.marker import Marker, TieredRange
from tiering.lake.proof.bucket_proof import BucketProof
from tiering.lake.proof.change_sums import ChangeSums, RowSum
from tiering.lake.proof.row_checksum import MODULUS
from tiering.lake.rules.proved_rows import proved_rows, proving_markers
from tiering.model.tables import BucketKey

PLACES = {B0: (None, 0), B1: (None, 1)}
PROOFS = {B0: BucketProof(0, 17, MODULUS - 3, "chain", ((4, 7),)), B1: BucketProof(5, 4, 8)}
PROVING = replace(MARKER, proofs=PROOFS)


def rows(bucket_id: int | None, count: int, checksum: int, partition_id: int | None = None) -> CleanRows:
    return CleanRows(partition_id, bucket_id, ChangeSums(None, None, RowSum(count, checksum), None))


OF_EACH_BUCKET = [rows(0, 17, MODULUS - 3), rows(1, 4, 8)]
OF_ALL_BUCKETS = [rows(None, 21, 5)]


@pytest.mark.parametrize("standing", [OF_EACH_BUCKET, OF_ALL_BUCKETS])
def test_rows_with_the_proofs_sums_have_the_markers_offsets(standing: list[CleanRows]) -> None:
    proved = proved_rows([PROVING], PLACES, standing)
    assert proved is not None
    assert proved.marker == PROVING
    assert proved.lake_rows.runs(PLACES[B0]) == [(0, 4), (7, 20)]
    assert proved.lake_rows.runs(PLACES[B1]) == [(5, 9)]


@pytest.mark.parametrize(
    "standing",
    [
        [rows(None, 20, 5)],
        [rows(None, 21, 6)],
        [rows(0, 17, MODULUS - 3)],
        [rows(0, 17, MODULUS - 3), rows(1, 3, 8)],
        [*OF_EACH_BUCKET, rows(2, 1, 0)],
        [],
    ],
    ids=["a row is missing", "a row is another", "a bucket is missing", "a bucket lacks a row", "rows of another program", "no rows"],
)
def test_rows_with_other_sums_prove_nothing(standing: list[CleanRows]) -> None:
    assert proved_rows([PROVING], PLACES, standing) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda marker: replace(marker, proofs={}),
        lambda marker: replace(marker, proofs={B0: PROOFS[B0]}),
        lambda marker: replace(marker, proofs={**PROOFS, B0: replace(PROOFS[B0], since=2)}),
        lambda marker: replace(marker, lake_table_uuid="another"),
    ],
    ids=["no proof", "a bucket without", "a proof that began later", "another lake table"],
)
def test_a_marker_that_does_not_prove_all_its_rows_is_not_asked(spoil: Callable[[Marker], Marker]) -> None:
    marker = spoil(PROVING)
    assert proving_markers(LakeSurvey(view(marker=marker), marker, marker), PLACES) == []


def test_a_bucket_to_which_nothing_was_tiered_needs_no_proof() -> None:
    marker = replace(PROVING, buckets={B0: TieredRange(0, 20), B1: TieredRange(5, 5)}, proofs={B0: PROOFS[B0]})
    proved = proved_rows([marker], PLACES, OF_EACH_BUCKET[:1])
    assert proved is not None
    assert proved.lake_rows.runs(PLACES[B1]) == []
    assert proved_rows([marker], PLACES, OF_EACH_BUCKET) is None


def test_the_number_of_rows_rules_markers_out_before_rows_are_read() -> None:
    older = replace(PROVING, round_id="r1", buckets={B0: TieredRange(0, 3)}, proofs={B0: BucketProof(0, 3, 1)})
    lake = view(marker=PROVING)
    both = [PROVING, older]
    assert proving_markers(LakeSurvey(lake, PROVING, older), PLACES) == [older, PROVING]
    assert proving_markers(LakeSurvey(replace(lake, records=3), PROVING, older), PLACES) == [older]
    assert proving_markers(LakeSurvey(replace(lake, records=4), PROVING, older), PLACES) == []
    proved = proved_rows(both, PLACES, [rows(0, 3, 1)])
    assert proved is not None
    assert proved.marker == older


def test_partitions_that_are_gone_do_not_count() -> None:
    living, gone = BucketKey(1, 0), BucketKey(2, 0)
    buckets, proofs = dict.fromkeys((living, gone), TieredRange(0, 2)), dict.fromkeys((living, gone), BucketProof(0, 2, 9))
    marker, places = replace(MARKER, buckets=buckets, proofs=proofs), {living: ("eu", 0)}
    lake: LakeView = replace(view(marker=marker), records=40)
    assert proving_markers(LakeSurvey(lake, marker), places) == [marker]
    proved = proved_rows([marker], places, [rows(None, 2, 9, partition_id=1)])
    assert proved is not None
    assert proved.lake_rows.places == {("eu", 0)}
    assert proved_rows([marker], places, [rows(None, 4, 18, partition_id=1)]) is None
