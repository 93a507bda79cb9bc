"""When a bucket is written anew: beyond 30 % of dead rows, or of many small files; never over equality deletes."""

from __future__ import annotations

import pytest

from tiering.lake.iceberg.primary_key.bucket_files import (
    MANY_FILES,
    SMALL_FILE_BYTES,
    BucketFiles,
    LiveFile,
    are_deletes_merged,
    is_to_be_rewritten,
)

SMALL, LARGE = SMALL_FILE_BYTES - 1, SMALL_FILE_BYTES


def bucket(records: int, files: int = 1, deletes: int = 0, size_bytes: int = LARGE) -> BucketFiles:
    data = tuple(LiveFile(f"data-{number}", records, size_bytes) for number in range(files))
    return BucketFiles(7, data, tuple(LiveFile(f"deletes-{number}", 1, size_bytes) for number in range(deletes)))


@pytest.mark.parametrize(
    ("dead", "added", "rewritten"),
    [(0, 0, False), (30, 0, False), (31, 0, True), (100, 0, True), (31, 10, False), (33, 10, False), (34, 10, True)],
)
def test_a_bucket_is_rewritten_once_more_than_three_in_ten_rows_are_dead(dead: int, added: int, rewritten: bool) -> None:
    """The share counts the 100 existing rows and the rows that the round adds."""
    assert is_to_be_rewritten(bucket(50, files=2), dead, added) is rewritten


def test_many_small_files_are_rewritten_and_many_large_ones_are_not() -> None:
    assert not is_to_be_rewritten(bucket(50, files=MANY_FILES - 1, size_bytes=SMALL), 0, 1)
    assert is_to_be_rewritten(bucket(50, files=MANY_FILES - 1, deletes=1, size_bytes=SMALL), 0, 1)
    assert not is_to_be_rewritten(bucket(50, files=MANY_FILES, size_bytes=LARGE), 0, 1)


def test_nothing_is_rewritten_over_equality_deletes_or_where_nothing_stands() -> None:
    """Which rows the deletes of others take is not known: they would come back."""
    dead = bucket(100)
    with_others = BucketFiles(7, dead.data, dead.deletes, (LiveFile("theirs", 1, SMALL),))
    assert is_to_be_rewritten(dead, 90, 0)
    assert not is_to_be_rewritten(with_others, 90, 0)
    assert not is_to_be_rewritten(BucketFiles(None), 0, 50)


def test_delete_files_are_merged_by_the_second_or_when_some_delete_nothing() -> None:
    assert not are_deletes_merged(bucket(1_000), 1, left_over=False)
    assert are_deletes_merged(bucket(1_000, deletes=1), 1, left_over=False)
    assert not are_deletes_merged(bucket(1_000, deletes=1), 0, left_over=False)
    assert are_deletes_merged(bucket(1_000, deletes=1), 0, left_over=True)
