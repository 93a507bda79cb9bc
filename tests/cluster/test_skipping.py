"""A log is read around the records that are left out: they are not even decoded."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from tiering.cluster.skipping import reader_without
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, TablePath


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
