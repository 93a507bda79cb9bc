"""Decides when a bucket, or its delete file, is rewritten instead of getting another file. Pure."""

from __future__ import annotations

from tiering.lake.iceberg.primary_key.bucket_files import BucketFiles, LiveFile
from tiering.lake.rules.upkeep.rewrite_runs import DEAD_SHARE
from tiering.lake.rules.upkeep.small_files import first_to_merge

MANY_FILES = 100
SMALL_FILE_BYTES = 16 << 20
"""A bucket with MANY_FILES files of a smaller average size costs its readers more time to open than to read."""

MANY_DELETE_FILES = 1
"""A reader opens all of a bucket's delete files for each of its data files, so a bucket has at most one."""


def is_to_be_rewritten(base: BucketFiles, dead: int, added: int) -> bool:
    """Whether a round rewrites all live rows of `base`. After the round `dead` of its rows are deleted, and `added` are new.

    False with equality deletes of other writers, because it is unknown which rows they delete.
    """
    if base.equality_deletes or not base.data:
        return False
    if dead > DEAD_SHARE * (sum(file.records for file in base.data) + added):
        return True
    files = (*base.data, *base.deletes)
    return len(files) >= MANY_FILES and sum(file.size_bytes for file in files) < SMALL_FILE_BYTES * len(files)


def files_to_merge(own: BucketFiles, target_bytes: int, budget_bytes: int) -> tuple[LiveFile, ...]:
    """Returns the smallest data files of a bucket, whose live rows the round writes together with its own; none if there are few files.

    None with equality deletes of other tools, because it is unknown which rows they delete.
    """
    if own.equality_deletes:
        return ()
    by_size = sorted(own.data, key=lambda file: (-file.size_bytes, file.location))
    first = first_to_merge([file.size_bytes for file in by_size], target_bytes, budget_bytes)
    return () if first is None else tuple(by_size[first:])


def are_deletes_merged(base: BucketFiles, deletes: int, *, left_over: bool) -> bool:
    """Whether the round's delete file takes over the deletes of the bucket's delete files, which are then removed.

    `deletes`: rows that the round deletes. `left_over`: whether some existing deletes have no effect (`dead_rows`).
    """
    return left_over or (deletes > 0 and len(base.deletes) >= MANY_DELETE_FILES)
