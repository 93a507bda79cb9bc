"""A log is read around the records that are left out: they are not even decoded."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tiering.cluster.capabilities import ResumableReader
from tiering.cluster.skipping import reader_without, still_skipped
from tiering.errors import ClusterUnavailable
from tiering.model.refused_records import bucket_stopped
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, BucketOffsets, Offsets, TableInfo, TablePath, TableType

B0 = BucketKey(None, 0)
TABLE = TableInfo(1, TablePath("sales", "orders"), TableType.LOG, pa.schema([("offset", pa.int64())]), 1, datetime(2026, 1, 1, tzinfo=UTC))


@dataclass(frozen=True)
class Numbers:
    split: TieringLogSplit
    poisoned: Collection[int]

    def read(self) -> Iterator[pa.RecordBatch]:
        numbers = range(self.split.starting_offset, self.split.stopping_offset)
        assert not set(numbers) & set(self.poisoned)
        yield pa.RecordBatch.from_pydict({"offset": pa.array(numbers, pa.int64())})


@pytest.mark.parametrize("skipped", [(), (10,), (19,), (10, 11, 19), (14,), tuple(range(10, 20)), (9, 20)])
def test_all_records_but_those_are_read(skipped: tuple[int, ...]) -> None:
    split = TieringLogSplit(TablePath("sales", "orders"), BucketKey(None, 0), None, 10, 20, 20)
    reader = pickle.loads(pickle.dumps(reader_without(lambda part: Numbers(part, skipped), split, skipped)))
    offsets = [offset for batch in reader.read() for offset in batch.column("offset").to_pylist()]
    assert offsets == [offset for offset in range(10, 20) if offset not in skipped]
    assert reader.split == split


@dataclass(frozen=True)
class StoppingNumbers:
    """Stops before each of `undecodable` as the reader of a Fluss log does, and fails if `is_down`."""

    split: TieringLogSplit
    undecodable: Collection[int] = ()
    is_down: bool = False

    def read(self) -> Iterator[pa.RecordBatch]:
        if self.is_down:
            raise ClusterUnavailable("the cluster does not answer")
        for number in range(self.split.starting_offset, self.split.stopping_offset):
            if number in self.undecodable:
                raise bucket_stopped(self.split.table_path, B0, None, number, "its column is beyond microseconds")
            yield pa.RecordBatch.from_pydict({"offset": pa.array([number], pa.int64())})

    def from_offset(self, offset: int) -> StoppingNumbers:
        return replace(self, split=replace(self.split, starting_offset=offset))


@pytest.mark.parametrize("start", [10, 13, 14])
def test_an_uncertain_record_is_read_if_it_can_be_decoded(start: int) -> None:
    split = TieringLogSplit(TablePath("sales", "orders"), B0, None, 10, 20, 20)
    opened = reader_without(lambda part: StoppingNumbers(part, (13,)), split, (11,), (11, 13, 15, 25))
    reader = pickle.loads(pickle.dumps(opened))
    assert isinstance(reader, ResumableReader)
    offsets = [offset for batch in reader.from_offset(start).read() for offset in batch.column("offset").to_pylist()]
    assert offsets == [offset for offset in range(start, 20) if offset not in (11, 13)]


def test_an_uncertain_record_that_the_cluster_does_not_return_is_an_error() -> None:
    split = TieringLogSplit(TablePath("sales", "orders"), B0, None, 10, 20, 20)
    with pytest.raises(ClusterUnavailable):
        list(reader_without(lambda part: StoppingNumbers(part, is_down=True), split, (), (10,)).read())


LEFT_OUT = {3: "a3", 5: None, 7: "a7", 9: "a9"}
"""Offsets with the traces that the records had when they were left out."""


class RewrittenLog:
    """A log of one bucket whose records from `cut` on are others than they were."""

    def __init__(self, start: int, cut: int, end: int, unknown: Collection[int] = ()) -> None:
        self.start, self.cut, self.end, self.unknown = start, cut, end, unknown
        self.looks = 0

    def offsets(self, table: object) -> Mapping[BucketKey, BucketOffsets]:
        return {B0: BucketOffsets(self.start, self.end)}

    def record_traces(self, table: object, offsets: Offsets) -> Mapping[BucketKey, str]:
        self.looks += 1
        shown = {bucket: at for bucket, at in offsets.items() if self.start < at <= self.end and at - 1 not in self.unknown}
        return {bucket: f"{'a' if at <= self.cut else 'b'}{at - 1}" for bucket, at in shown.items()}

    def settle(self, table: object) -> None:
        """Knows its end always."""


@pytest.mark.parametrize(
    ("log", "left"),
    [
        (RewrittenLog(0, 20, 20), {3, 5, 7, 9}),
        (RewrittenLog(0, 9, 20), {3, 5, 7}),
        (RewrittenLog(0, 6, 20), {3, 5}),
        (RewrittenLog(0, 0, 20), set()),
        (RewrittenLog(0, 6, 8), {3, 5}),
        (RewrittenLog(0, 4, 4), {3, 5, 7, 9}),
        (RewrittenLog(8, 0, 20), {3, 5, 7}),
        (RewrittenLog(12, 0, 20), {3, 5, 7, 9}),
    ],
    ids=["same", "last", "middle", "all", "grown in part", "cut only", "start is gone", "all are gone"],
)
def test_records_stay_left_out_unless_the_log_has_others_there(log: Any, left: set[int]) -> None:
    assert set(still_skipped(log, TABLE, {B0: LEFT_OUT})[B0]) == left


@pytest.mark.parametrize("cut", [0, 1, 250, 499, 500])
def test_looks_grow_with_the_logarithm_of_the_number_of_skipped_records(cut: int) -> None:
    log: Any = RewrittenLog(0, cut, 500)
    assert set(still_skipped(log, TABLE, {B0: {offset: f"a{offset}" for offset in range(500)}})[B0]) == set(range(cut))
    assert log.looks == 1 if cut == 500 else log.looks <= 10


@pytest.mark.parametrize(
    ("cut", "unknown"),
    [(0, range(250)), (300, range(250)), (300, range(499, 500)), (300, (249, 250, 374))],
    ids=["unknown start, all cut", "unknown start", "unknown end", "unknown between"],
)
def test_records_without_a_trace_now_do_not_hide_where_the_log_was_cut(cut: int, unknown: Collection[int]) -> None:
    log: Any = RewrittenLog(0, cut, 500, unknown)
    left = still_skipped(log, TABLE, {B0: {offset: f"a{offset}" for offset in range(500)}})[B0]
    assert set(left) == set(range(max(cut, 250 if unknown == range(250) else 0)))
    assert log.looks <= 18


def test_a_service_without_traces_is_asked_only_a_few_times() -> None:
    log: Any = RewrittenLog(0, 0, 500, range(500))
    records = {offset: f"a{offset}" for offset in range(500)}
    assert still_skipped(log, TABLE, {B0: records}) == {B0: records}
    assert log.looks <= 8


def test_nothing_is_asked_where_no_record_has_a_trace() -> None:
    older = {B0: {3: None}}
    assert still_skipped(None, TABLE, older) == older  # type: ignore[arg-type]  # no cluster is needed
