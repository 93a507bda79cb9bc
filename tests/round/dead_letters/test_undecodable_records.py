"""Records that the cluster's reader cannot decode, such as a time of Fluss beyond microseconds: they are put aside as well."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from support.lake_kinds.dead_letters import PUT_ASIDE, letters, tiered
from support.lake_kinds.kinds import LAKE_KINDS, LakeKind
from support.lake_kinds.poisoned import POISON, Poisoned
from tiering.cluster.base import SplitReader
from tiering.cluster.capabilities import ResumableReader
from tiering.cluster.skipping import reader_without
from tiering.coordinator.lake_repair.letter_rows import NOT_IN_LOG
from tiering.model.refused_records import bucket_stopped
from tiering.model.rounds import RoundState
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import OFFSET_COLUMN, BucketKey, TableInfo, TablePath
from tiering.procedures.replay_dead_letters import ReplayDeadLetters


@dataclass(frozen=True)
class StoppingReader:
    """Reads a split up to the first POISON, and stops there as the reader of a Fluss log does."""

    reader: SplitReader
    split: TieringLogSplit
    starts: list[int] = field(default_factory=list)

    def from_offset(self, offset: int) -> StoppingReader:
        return replace(self, split=replace(self.split, starting_offset=offset))

    def read(self) -> Iterator[pa.RecordBatch]:
        self.starts.append(self.split.starting_offset)
        for whole in self.reader.read():
            batch = whole.slice(int((whole.column(OFFSET_COLUMN).to_numpy() < self.split.starting_offset).sum()))
            texts = batch.column("text").to_pylist()
            if POISON not in texts:
                yield batch
                continue
            place = texts.index(POISON)
            if place:
                yield batch.slice(0, place)
            offset = batch.column(OFFSET_COLUMN)[place].as_py()
            reason = "its column 'text' is beyond microseconds"
            raise bucket_stopped(self.split.table_path, self.split.bucket, None, offset, reason, "text='far'", column="text")


def stops(poisoned: Poisoned, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = poisoned.world.storage

    def reader(open_reader: partial[SplitReader], table: TableInfo, split: TieringLogSplit) -> StoppingReader:
        return StoppingReader(open_reader(table, split), split)

    monkeypatch.setattr(storage, "reader", partial(reader, storage.reader))


@pytest.mark.parametrize("kind", LAKE_KINDS[:2], ids=lambda kind: kind.name)
def test_the_records_behind_it_are_read_on(tmp_path: Path, kind: LakeKind, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned = Poisoned(tmp_path, kind, has_key=False, buckets=1, options=PUT_ASIDE)
    poisoned.write((100, POISON), (1, "row 1"), (101, POISON), (102, POISON), (2, "row 2"), (103, POISON))
    with monkeypatch.context() as fluss:
        stops(poisoned, fluss)
        assert poisoned.world.tier(poisoned.table).error is None
    assert poisoned.in_lake() == {1: "row 1", 2: "row 2"}
    assert [letter["offset"] for letter in letters(poisoned)] == [0, 2, 3, 5]
    [first, *_] = letters(poisoned)
    assert (json.loads(first["record"]), first["raw_record"], first["change_type"]) == ({"undecoded": "text='far'"}, b"", "+A")
    poisoned.write((3, "row 3"))
    tiered(poisoned)
    assert poisoned.in_lake() == {1: "row 1", 2: "row 2", 3: "row 3"}
    call = ReplayDeadLetters(poisoned.table.path, caller="ann")
    with monkeypatch.context() as fluss:
        stops(poisoned, fluss)
        refused = asyncio.run(poisoned.world.coordinator.control.perform(call))
    assert (refused.rows_replayed, refused.rows_refused, refused.refusal) == (0, 4, NOT_IN_LOG)
    assert asyncio.run(poisoned.world.coordinator.control.perform(call)).rows_replayed == 4, "a newer version decodes them"
    assert len(poisoned.in_lake()) == 7
    poisoned.world.close()


def test_a_change_that_may_be_a_delete_stops_the_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poisoned = Poisoned(tmp_path, LAKE_KINDS[1], has_key=True, buckets=1, options=PUT_ASIDE)
    poisoned.write((1, "row 1"), (100, POISON), (2, "row 2"))
    stops(poisoned, monkeypatch)
    outcome = poisoned.world.tier(poisoned.table)
    assert outcome.state is RoundState.SUCCEEDED
    assert outcome.error is not None
    assert outcome.error.error_class == "BucketStopped"
    assert poisoned.in_lake() == {1: "row 1"}
    assert letters(poisoned) == []
    poisoned.world.close()


@dataclass(frozen=True)
class NumberReader:
    """Reads the offsets of a split."""

    split: TieringLogSplit

    def from_offset(self, offset: int) -> NumberReader:
        assert self.split.starting_offset <= offset < self.split.stopping_offset
        return NumberReader(replace(self.split, starting_offset=offset))

    def read(self) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({OFFSET_COLUMN: list(range(self.split.starting_offset, self.split.stopping_offset))})


@pytest.mark.parametrize("offset", range(10))
def test_a_reader_that_leaves_out_records_continues_at_any_offset(offset: int) -> None:
    split = TieringLogSplit(TablePath("sales", "orders"), BucketKey(None, 0), None, 0, 10, None)
    reader = reader_without(NumberReader, split, [0, 4, 5, 9])
    assert isinstance(reader, ResumableReader)
    read = [number for batch in reader.from_offset(offset).read() for number in batch.column(0).to_pylist()]
    assert read == [number for number in (1, 2, 3, 6, 7, 8) if number >= offset]
