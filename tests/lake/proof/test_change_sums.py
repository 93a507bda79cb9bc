"""Sums of a range of a log: rows, deletes and what lives, whatever the order of rows and the size of batches."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from tiering.lake.proof import change_sums
from tiering.lake.proof.change_sums import ChangeSums, LogFold, RowSum, sum_of_hashes
from tiering.lake.proof.row_checksum import row_checksum, row_hashes
from tiering.model.tables import ChangeType, TableInfo, TablePath, TableType

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string())])
WHEN = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = TableInfo(1, TablePath("sales", "planes"), TableType.PRIMARY_KEY, SCHEMA, 1, WHEN, primary_key=("id",))
LOG = replace(KEYS, table_type=TableType.LOG, primary_key=())
INSERT, BEFORE, AFTER, DELETE = ChangeType.INSERT, ChangeType.UPDATE_BEFORE, ChangeType.UPDATE_AFTER, ChangeType.DELETE

Change = tuple[ChangeType, int, str]


def batch(table: TableInfo, *changes: Change) -> pa.RecordBatch:
    columns = {
        "id": [key for _, key, _ in changes],
        "text": [text for *_, text in changes],
        "__bucket": [0] * len(changes),
        "__offset": list(range(len(changes))),
        "__timestamp": [WHEN] * len(changes),
        "__change_type": [int(kind) for kind, *_ in changes],
    }
    schema = table.read_schema()
    return pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names}, schema=schema)


def rows(*pairs: tuple[int, str]) -> RowSum:
    data = pa.RecordBatch.from_pydict({"id": [key for key, _ in pairs], "text": [text for _, text in pairs]}, schema=SCHEMA)
    return RowSum(len(pairs), row_checksum(data))


def keys(*values: int) -> RowSum:
    return sum_of_hashes(row_hashes(pa.record_batch({"id": pa.array(values, pa.int64())})))


def folded(table: TableInfo, *batches: pa.RecordBatch) -> ChangeSums:
    fold = LogFold(table)
    for part in batches:
        fold.add(part)
    return fold.sums()


CHANGES: tuple[Change, ...] = (
    (BEFORE, 1, "old"),
    (AFTER, 1, "new"),
    (INSERT, 2, "two"),
    (INSERT, 3, "three"),
    (DELETE, 2, "two"),
    (BEFORE, 1, "new"),
    (AFTER, 1, "newest"),
)


@pytest.mark.parametrize("pending", [1, 1 << 20])
def test_changes_are_folded(monkeypatch: pytest.MonkeyPatch, pending: int) -> None:
    monkeypatch.setattr(change_sums, "PENDING_ROWS", pending)
    whole = folded(KEYS, batch(KEYS, *CHANGES))
    written, living = rows((1, "new"), (2, "two"), (3, "three"), (1, "newest")), rows((3, "three"), (1, "newest"))
    assert whole == ChangeSums(written, keys(1, 2, 1), living, keys(2))
    assert folded(KEYS, *(batch(KEYS, change) for change in CHANGES)) == whole


@pytest.mark.parametrize("parts", [1, 6])
def test_updates_without_a_before_image_are_told(parts: int) -> None:
    changes: tuple[Change, ...] = (
        (AFTER, 1, "a"),
        (BEFORE, 2, "b"),
        (AFTER, 2, "c"),
        (BEFORE, 2, "c"),
        (AFTER, 3, "d"),
        (AFTER, 1, "e"),
    )
    size = len(changes) // parts
    batches = [batch(KEYS, *changes[first : first + size]) for first in range(0, len(changes), size)]
    assert folded(KEYS, *batches, batch(KEYS)).replaced == keys(1, 3, 1)
    assert folded(KEYS, batch(KEYS, *CHANGES)).replaced == RowSum()


def test_a_key_that_ends_with_its_before_image_does_not_live() -> None:
    sums = folded(KEYS, batch(KEYS, *CHANGES[:-1]))
    assert (sums.living, sums.gone) == (rows((3, "three")), keys(1, 2))


def test_rows_of_a_log_table_are_summed() -> None:
    part = batch(LOG, (ChangeType.APPEND, 1, "a"), (ChangeType.APPEND, 1, "a"))
    assert folded(LOG, part, part) == ChangeSums(rows(*[(1, "a")] * 4), RowSum(), rows(*[(1, "a")] * 4))
    assert folded(LOG) == ChangeSums() == folded(KEYS)


def test_hashes_of_rows_add_up_to_their_checksum() -> None:
    data = pa.RecordBatch.from_pydict({"id": range(40_000), "text": ["a", "b"] * 20_000}, schema=SCHEMA)
    assert sum_of_hashes(row_hashes(data)) == RowSum(40_000, row_checksum(data))
    assert len(row_hashes(data.slice(0, 0))) == 0


def test_what_one_side_does_not_tell_both_together_do_not() -> None:
    some = ChangeSums(RowSum(1, 2), None, RowSum(3, 4), RowSum(5, 6))
    assert some + ChangeSums(None, RowSum(), RowSum(1, 1), RowSum(1, 1)) == ChangeSums(None, None, RowSum(4, 5), RowSum(6, 7))
