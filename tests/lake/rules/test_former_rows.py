"""Rows that another tiering service added under a partition's name are attributed by partition ids, then by commit times, else they are
unknown."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from tiering.lake.foreign import AddedRows, ForeignSnapshot
from tiering.lake.log_starts import LogStart, RowOwner
from tiering.lake.marker import TieredRange
from tiering.lake.rules.contiguous_offsets import RowOffsets
from tiering.lake.rules.former_rows import Partitions, in_groups
from tiering.model.tables import BucketKey, Offsets

FORMER, LIVING, OTHER = (BucketKey(number, 0) for number in (1, 2, 3))
OLD, NEW = 20, 40
WHOLE_LOG, CUT_LOG = LogStart(0, 30), LogStart(200, 50)


def partitions(
    begin: LogStart = WHOLE_LOG, stated: Offsets | None = None, recorded: Offsets | None = None, expected: int | None = None
) -> Partitions:
    ends = {} if expected is None else {FORMER: TieredRange(0, expected)}
    return Partitions({2, 3}, ends, lambda _: begin, stated or {}, {} if recorded is None else {7: recorded})


def added(newest_ms: int = NEW, begin: int = 0, end: int = 100, **offsets: int) -> ForeignSnapshot:
    stated = {BucketKey(int(name.removeprefix("p")), 0): offset for name, offset in offsets.items()}
    return ForeignSnapshot(7, {LIVING: AddedRows(begin, end, end - begin, newest_ms)}, stated)


@pytest.mark.parametrize(
    ("expected", "snapshot", "owner"),
    [
        (partitions(), added(p2=100), RowOwner.THIS),
        (partitions(CUT_LOG), added(OLD, p2=100, p3=5), RowOwner.THIS),
        (partitions(), added(p1=100), RowOwner.FORMER),
        (partitions(), added(p1=100, p2=50), RowOwner.FORMER),
        (partitions(expected=100), added(OLD, p1=100, p2=100), RowOwner.THIS),
        (partitions(), added(OLD, p1=100, p2=100), RowOwner.FORMER),
        (partitions(), added(NEW, p1=100, p2=100), RowOwner.THIS),
        (partitions(), added(OLD), RowOwner.FORMER),
        (partitions(), added(NEW), RowOwner.THIS),
        (partitions(recorded={LIVING: 100}), added(OLD), RowOwner.THIS),
        (partitions(CUT_LOG), added(NEW), RowOwner.THIS),
        (partitions(CUT_LOG, {LIVING: 300, OTHER: 100}), added(NEW), RowOwner.THIS),
        (partitions(CUT_LOG, {LIVING: 300, FORMER: 99}), added(NEW), RowOwner.THIS),
        (partitions(CUT_LOG, {LIVING: 300, FORMER: 100}), added(NEW), RowOwner.UNKNOWN),
        (partitions(CUT_LOG, {LIVING: 300, FORMER: 100}, expected=100), added(NEW), RowOwner.THIS),
        (partitions(CUT_LOG), added(NEW, 150, 201), RowOwner.FORMER),
        (partitions(CUT_LOG, {FORMER: 400}), added(50, 150, 201), RowOwner.THIS),
        (partitions(LogStart(0, None)), added(NEW), RowOwner.FORMER),
        (partitions(CUT_LOG, {FORMER: 400}), added(-1, -1, 0), RowOwner.THIS),
    ],
)
def test_whose_rows_they_are(expected: Partitions, snapshot: ForeignSnapshot, owner: RowOwner) -> None:
    assert expected.owner(snapshot, LIVING) is owner


def test_a_table_without_partitions_has_no_former_rows() -> None:
    bucket = BucketKey(None, 0)
    expected = Partitions((), {}, lambda _: LogStart(0, None), {bucket: 9})
    snapshot = ForeignSnapshot(7, {bucket: AddedRows(0, 9, 9)}, has_clean_rows=True)
    assert expected.owner(snapshot, bucket) is RowOwner.THIS
    assert not expected.may_have_dropped_rows([snapshot])
    assert in_groups(expected, [snapshot]) == [([7], frozenset())]


def clean(number: int, *stated: BucketKey, dropped: bool = False) -> ForeignSnapshot:
    return ForeignSnapshot(number, {}, dict.fromkeys(stated, 50), has_clean_rows=True, has_dropped_rows=dropped)


def test_clean_rows_are_summed_for_partitions_that_a_snapshot_states() -> None:
    groups = in_groups(partitions(), [clean(7, FORMER, OTHER), clean(8, FORMER, OTHER, LIVING)])
    assert sorted(groups) == [([7, 8], frozenset({3})), ([8], frozenset({2}))]
    assert in_groups(partitions(), [clean(7)]) == [([7], frozenset({2, 3}))]


@pytest.mark.parametrize(
    ("expected", "snapshot", "may"),
    [
        (partitions(stated={LIVING: 50}), clean(7, LIVING), False),
        (partitions(stated={LIVING: 50}), clean(7, LIVING, dropped=True), True),
        (partitions(stated={LIVING: 50, FORMER: 50}), clean(7, LIVING, FORMER), True),
        (partitions(stated={LIVING: 50, FORMER: 50}, expected=50), clean(7, LIVING, FORMER), False),
        (partitions(), clean(7), True),
    ],
)
def test_rows_of_dropped_partitions_are_suspected(expected: Partitions, snapshot: ForeignSnapshot, may: bool) -> None:
    assert expected.may_have_dropped_rows([snapshot]) is may


def test_offsets_are_gathered_without_those_of_a_former_partition() -> None:
    held, place = RowOffsets(), ("eu", 0)
    held.add_with_times(place, np.array([0, 1, 2, 0, 1]), np.array([30, 31, 40, 10, 29]), WHOLE_LOG)
    assert held.runs(place) == [(0, 3)]
    assert not held.has_unknown
    cut = RowOffsets()
    cut.add_with_times(place, np.array([198, 199, 200, 201, 201, 198]), np.array([49, 49, 50, 60, 20, 10]), CUT_LOG)
    assert (cut.doubled(place), cut.unknown(place).runs(place)) == (1, [(198, 199), (198, 200)])
    assert deepcopy(cut).unknown(place).doubled(place) == 1
