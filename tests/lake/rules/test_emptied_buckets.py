"""Which buckets of a primary-key table lose their rows when they begin anew beside another service."""

from __future__ import annotations

import pytest

from tiering.lake.base import LakeView
from tiering.lake.foreign import ForeignWalk, SharedRecords
from tiering.lake.maintenance import LakeSurvey
from tiering.lake.marker import TieredRange
from tiering.lake.rules.base_check import KnownLake
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.reconcile import Situation, emptied
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, BucketOffsets, TablePath, TableType

BUCKET = BucketKey(7, 0)


@pytest.mark.parametrize("told_by", ["nothing", "record", "walk", "moved back"])
def test_a_partition_that_was_tiered_before_loses_its_rows_and_a_dropped_one_keeps_them(told_by: str) -> None:
    recorded = (RecordedLakeSnapshot(1, {BUCKET: 5}),) if told_by == "record" else ()
    ranges = {BUCKET: TieredRange(0, 5)} if told_by == "walk" else {}
    walk = ForeignWalk(ranges, moved_back=frozenset({BUCKET} if told_by == "moved back" else ()))
    view = LakeView(TablePath("sales", "users"), "uuid", 1, None, None, {})
    known = KnownLake("cluster", 1, "uuid", None, recorded, shared=SharedRecords())
    log = {BUCKET: BucketOffsets(0, 9)}
    situation = Situation(
        TableType.PRIMARY_KEY, LakeSurvey(view, None), known, log, {BUCKET: ("eu", 0)}, walk=walk, replaceable=frozenset(log)
    )
    held = RowOffsets()
    held.add_place(("eu", 0))
    assert emptied(situation, held, {}) == (frozenset() if told_by == "nothing" else {BUCKET})
