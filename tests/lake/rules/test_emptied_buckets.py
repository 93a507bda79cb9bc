"""Which buckets of a primary-key table lose their rows when they begin anew beside another service."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tiering.errors import CannotReconcile, LakeRolledBack, PermanentTieringError
from tiering.lake.base import LakeSnapshot, LakeView
from tiering.lake.foreign import ForeignWalk, SharedRecords
from tiering.lake.maintenance import LakeSurvey
from tiering.lake.marker import TieredRange
from tiering.lake.rules.base_check import ExpectedLake
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.reconcile import ReconcileInput, emptied
from tiering.model.rounds import RecordedLakeSnapshot
from tiering.model.tables import BucketKey, BucketOffsets, TablePath, TableType

BUCKET, WHOLE = BucketKey(7, 0), BucketKey(None, 0)


ROUND = LakeSnapshot(1, None, 1, datetime(2026, 1, 1, tzinfo=UTC), "append", None, "round-1")


def anew(bucket: BucketKey, told_by: str, problem: PermanentTieringError | None = None, *snapshots: LakeSnapshot) -> frozenset[BucketKey]:
    """The buckets that are emptied where one begins anew in which rows stand. `snapshots`: those that are left."""
    recorded = (RecordedLakeSnapshot(1, {bucket: 5}),) if told_by == "record" else ()
    ranges = {bucket: TieredRange(0, 5)} if told_by == "walk" else {}
    walk = ForeignWalk(ranges, moved_back=frozenset({bucket} if told_by == "moved back" else ()), problem=problem)
    view = LakeView(TablePath("sales", "users"), "uuid", 1, None, None, {snapshot.snapshot_id: snapshot for snapshot in snapshots})
    expected = ExpectedLake("cluster", 1, "uuid", None, recorded, shared=SharedRecords())
    log, place = {bucket: BucketOffsets(0, 9)}, (None if bucket.partition_id is None else "eu", 0)
    situation = ReconcileInput(
        TableType.PRIMARY_KEY, LakeSurvey(view, None), expected, log, {bucket: place}, walk=walk, replaceable=frozenset(log)
    )
    held = RowOffsets()
    held.add_place(place)
    return emptied(situation, held, {})


@pytest.mark.parametrize("told_by", ["nothing", "record", "walk", "moved back"])
def test_rows_of_a_table_without_partitions_go(told_by: str) -> None:
    assert anew(WHOLE, told_by) == {WHOLE}


def test_rows_that_nothing_tells_of_stay_where_no_other_service_wrote_behind_the_last_round() -> None:
    assert anew(BUCKET, "nothing", LakeRolledBack("rolled back"), ROUND) == frozenset()


def test_rows_of_a_dropped_partition_stay_and_those_that_a_walk_proved_go() -> None:
    assert anew(BUCKET, "nothing") == frozenset()
    assert anew(BUCKET, "moved back") == {BUCKET}


@pytest.mark.parametrize(
    ("told_by", "problem"),
    [
        ("record", None),
        ("walk", None),
        ("moved back", LakeRolledBack("rolled back")),
        ("record", LakeRolledBack("rolled back")),
        ("nothing", LakeRolledBack("rolled back")),
    ],
)
def test_rows_of_a_partition_that_may_be_those_of_a_dropped_one_are_not_removed(
    told_by: str, problem: PermanentTieringError | None
) -> None:
    with pytest.raises(CannotReconcile, match="only copy of those of a dropped partition of the same name") as refused:
        anew(BUCKET, told_by, problem)
    assert refused.value.hint.startswith("Rename the lake table sales.users in the lake's catalog, which keeps all of its rows")
