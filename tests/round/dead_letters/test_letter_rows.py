"""Which dead letters of a primary-key table become rows: keys outside of Python's years, halves of an update, values of former types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from tiering.coordinator.lake_repair.letter_rows import LOG_CUT, LetterWriter, WaitingLetter, WrittenLetters
from tiering.errors import LogTruncated
from tiering.lake.base import WriterInitContext
from tiering.lake.dead_letters.letter import raw_of
from tiering.model.refused_records import bucket_stopped
from tiering.model.splits import TieringLogSplit
from tiering.model.tables import BucketKey, BucketOffsets, ChangeType, TableInfo, TablePath, TableType

SCHEMA = pa.schema([pa.field("at", pa.timestamp("us"), nullable=False), pa.field("qty", pa.int32())])
TABLE = TableInfo(7, TablePath("sales", "orders"), TableType.PRIMARY_KEY, SCHEMA, 1, datetime(2026, 1, 1, tzinfo=UTC), primary_key=("at",))
BUCKET = BucketKey(None, 0)
FAR = 2**62
"""Microseconds since 1970, 146,000 years from now."""


def record(offset: int, at: int, kind: ChangeType = ChangeType.INSERT, quantity: Any = 1) -> pa.RecordBatch:
    """The record as a reader returns it. A text as quantity: from before the column's type was changed."""
    values = {"at": at, "qty": quantity, "__bucket": 0, "__offset": offset, "__timestamp": 0, "__change_type": int(kind)}
    schema = TABLE.read_schema()
    if isinstance(quantity, str):
        schema = schema.set(schema.get_field_index("qty"), pa.field("qty", pa.string()))
    return pa.RecordBatch.from_arrays([pa.array([values[field.name]], field.type) for field in schema], schema=schema)


@dataclass(frozen=True)
class Log:
    """A cluster with one bucket. It has the methods that a replay needs."""

    records: Sequence[pa.RecordBatch]
    start: int = 0
    listed_start: int | None = None
    """The start that the cluster lists; None = `start`."""

    def offsets(self, table: TableInfo) -> dict[BucketKey, BucketOffsets]:
        return {BUCKET: BucketOffsets(self.start if self.listed_start is None else self.listed_start, 10)}

    def reader(self, table: TableInfo, split: TieringLogSplit) -> Any:
        if split.starting_offset < self.start:
            raise LogTruncated(f"the log starts at offset {self.start}")
        return Log([row for row in self.records if split.starting_offset <= row["__offset"][0].as_py() < split.stopping_offset])

    def read(self) -> Iterator[pa.RecordBatch]:
        return iter(self.records)


class RefusingWriter:
    """A factory and its writer, for a lake that holds no row."""

    def create_writer(self, context: WriterInitContext) -> RefusingWriter:
        return self

    def write(self, row: pa.RecordBatch) -> None:
        raise bucket_stopped(TABLE.path, BUCKET, None, row["__offset"][0].as_py(), "it reached the writer")

    def abort(self) -> None:
        pass


def written(log: Sequence[pa.RecordBatch] | Log, *letters: WaitingLetter) -> tuple[dict[int, tuple[int, str]], dict[int, str]]:
    """The later changes of superseded offsets, and the reasons of the others."""
    writer = LetterWriter(log if isinstance(log, Log) else Log(log), TABLE, RefusingWriter(), "r1", 5)  # type: ignore[arg-type]
    writer.write(WriterInitContext(TABLE, "u", BUCKET, None, "r1", ""), letters, 10, ())
    refused = {offset: reason for (_, offset), reason in writer.written.refused.items()}
    superseded = writer.written.superseded.get(BUCKET, {})
    return {offset: (change.offset, change.change_type) for offset, change in superseded.items()}, refused


def waiting(row: pa.RecordBatch) -> WaitingLetter:
    return WaitingLetter(BUCKET, row["__offset"][0].as_py(), raw_of(row))


@pytest.mark.parametrize("kind", [ChangeType.UPDATE_AFTER, ChangeType.DELETE])
def test_keys_outside_of_the_years_of_python_are_compared(kind: ChangeType) -> None:
    log = [record(3, FAR), record(4, FAR + 1), record(7, FAR, kind)]
    assert written(log, waiting(log[0]), waiting(log[1])) == ({3: (7, kind.symbol)}, {4: "it reached the writer"})


def test_the_former_half_of_an_update_is_no_row_wherever_it_is_read() -> None:
    half = record(3, 5, ChangeType.UPDATE_BEFORE)
    assert written([half], WaitingLetter(BUCKET, 3)) == ({3: (4, "+U")}, {})
    assert written([half], waiting(half)) == ({3: (4, "+U")}, {})


def test_a_value_that_its_present_type_cannot_hold_keeps_its_record_waiting_and_no_other_one() -> None:
    former, present = record(3, 5, quantity="many"), record(4, 6)
    reasons = {3: "converting it to the present columns ends with ArrowInvalid", 4: "it reached the writer"}
    assert written([former, present], waiting(former), waiting(present)) == ({}, reasons)


def test_a_log_that_was_cut_refuses_the_letters_behind_whose_records_it_does_not_reach_and_no_others() -> None:
    keys = {2: 5, 3: 6, 5: 7, 8: 8}
    letters = [waiting(record(offset, key)) for offset, key in keys.items()]
    log = [record(6, 6, ChangeType.DELETE), record(7, 9), record(8, 8)]
    reached = "it reached the writer"
    assert written(Log(log, start=6), *letters) == ({3: (6, "-D")}, {2: LOG_CUT, 5: reached, 8: reached})
    assert written(Log(log, start=7), *letters) == ({}, {2: LOG_CUT, 3: LOG_CUT, 5: LOG_CUT, 8: reached})
    assert written(Log([], start=10), *letters) == ({}, dict.fromkeys((2, 3, 5, 8), LOG_CUT))
    assert written(Log(log, start=6, listed_start=0), *letters) == ({}, dict.fromkeys((2, 3, 5, 8), LOG_CUT))


def test_the_reasons_of_refused_letters_name_their_offsets_by_bucket_and_partition() -> None:
    first, second = BucketKey(None, 0), BucketKey(7, 1)
    refused = {(second, 4): "b", (first, 9): "a", (first, 3): "a", (first, 4): "a", (first, 5): "c"}
    assert WrittenLetters(refused=refused).refusals(TABLE.path, {first: None, second: "eu"}) == (
        "bucket 0 of sales.orders, offsets 3 to 4, 9: a",
        "bucket 0 of sales.orders, offset 5: c",
        "bucket 1 of partition eu of sales.orders, offset 4: b",
    )
