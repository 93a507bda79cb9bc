"""How a bucket begins anew of which the rows of another tiering service tell no end: former partitions keep their rows."""

from __future__ import annotations

import pytest

from support.lakes.lake_views import view
from tiering.errors import ForeignTieringUnproved
from tiering.lake.foreign import AddedRows, ForeignReaders, ForeignSnapshot
from tiering.lake.log_starts import LogStart
from tiering.lake.marker import TieredRange
from tiering.lake.proof.change_sums import ChangeSums
from tiering.lake.rules.foreign_walk import RunningEnds
from tiering.lake.rules.former_rows import Partitions
from tiering.model.tables import BucketKey, TableType

WHOLE, FORMER, LIVING = BucketKey(None, 0), BucketKey(1, 0), BucketKey(2, 0)
FROM_KV_SNAPSHOT, BEHIND_THE_CUT = AddedRows(-1, 60, 60, 40), AddedRows(50, 60, 10, 40)


def ends(log_start: int, *, may_hold_former: bool = False) -> RunningEnds:
    """A walk over a bucket of which nothing is known, with a log that begins at an offset."""

    def log_rows(bucket: BucketKey, start: int, stop: int) -> bool | None:
        return None if stop <= log_start else True

    readers = ForeignReaders(lambda _: ForeignSnapshot(0), lambda *_: (), log_rows, lambda *_: ChangeSums())
    partitions = Partitions({2}, {}, lambda _: LogStart(log_start, 20))
    return RunningEnds(view(head=2), TableType.PRIMARY_KEY, {}, frozenset(), readers, partitions, may_hold_former=may_hold_former)


def adds(bucket: BucketKey, rows: AddedRows, stated: BucketKey) -> ForeignSnapshot:
    return ForeignSnapshot(2, {bucket: rows}, {stated: 60})


def untold(bucket: BucketKey, rows: AddedRows) -> ForeignSnapshot:
    """Rows whose end is stated nowhere."""
    return ForeignSnapshot(2, {bucket: rows})


@pytest.mark.parametrize("may_hold_former", [False, True])
def test_the_whole_log_of_a_partition_is_replayed(may_hold_former: bool) -> None:
    walk = ends(0, may_hold_former=may_hold_former)
    walk.take(untold(LIVING, FROM_KV_SNAPSHOT), {})
    assert (walk.ranges, walk.moved_back, walk.left_out) == ({LIVING: TieredRange(0, 0)}, {LIVING}, set())


@pytest.mark.parametrize("rows", [FROM_KV_SNAPSHOT, BEHIND_THE_CUT])
def test_a_bucket_with_a_cut_log_begins_with_a_kv_snapshot(rows: AddedRows) -> None:
    for bucket in (WHOLE, LIVING):
        walk = ends(50)
        walk.take(untold(bucket, rows), {})
        assert (walk.ranges, walk.left_out) == ({}, {bucket})


def test_a_table_without_partitions_holds_no_former_rows() -> None:
    walk = ends(50, may_hold_former=True)
    walk.take(untold(WHOLE, FROM_KV_SNAPSHOT), {})
    assert walk.left_out == {WHOLE}


@pytest.mark.parametrize("rows", [FROM_KV_SNAPSHOT, BEHIND_THE_CUT])
def test_rows_that_may_be_those_of_a_former_partition_are_not_replaced(rows: AddedRows) -> None:
    with pytest.raises(ForeignTieringUnproved, match="only copy of those of a former partition") as refused:
        ends(50, may_hold_former=True).take(untold(LIVING, rows), {})
    assert refused.value.hint.startswith("Rename the lake table")


@pytest.mark.parametrize("former_first", [False, True])
def test_rows_of_a_former_partition_that_the_walk_met_are_not_replaced(former_first: bool) -> None:
    of_former, of_living = adds(LIVING, AddedRows(0, 60, 60, 10), FORMER), untold(LIVING, FROM_KV_SNAPSHOT)
    first, second = (of_former, of_living) if former_first else (of_living, of_former)
    walk = ends(50)
    walk.take(first, {})
    with pytest.raises(ForeignTieringUnproved, match="only copy of those of a former partition"):
        walk.take(second, {})
