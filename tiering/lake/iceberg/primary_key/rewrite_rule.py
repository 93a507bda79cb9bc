"""When a bucket, or what is deleted in it, is written anew instead of getting yet another file. Pure."""

from __future__ import annotations

from tiering.lake.iceberg.primary_key.bucket_files import BucketFiles, LiveFile
from tiering.lake.rules.upkeep.rewrite_runs import DEAD_SHARE
from tiering.lake.rules.upkeep.small_files import first_to_merge

MANY_FILES = 100
SMALL_FILE_BYTES = 16 << 20
"""A bucket of so many files, so small on average, costs its readers more to open than to read."""

MANY_DELETE_FILES = 1
"""A reader opens all of a bucket's delete files for each of its data files, so that a bucket has one."""


def is_to_be_rewritten(base: BucketFiles, dead: int, added: int) -> bool:
    """Whether all that lives in `base` is written anew by a round after which `dead` of its rows are dead, and `added` are new.

    Not with equality deletes of others: which rows they delete is not known here.
    """
    if base.equality_deletes or not base.data:
        return False
    if dead > DEAD_SHARE * (sum(file.records for file in base.data) + added):
        return True
    files = (*base.data, *base.deletes)
    return len(files) >= MANY_FILES and sum(file.size_bytes for file in files) < SMALL_FILE_BYTES * len(files)


def files_to_merge(own: BucketFiles, target_bytes: int, budget_bytes: int) -> tuple[LiveFile, ...]:
    """The smallest data files of a bucket, whose living rows the round writes together with its own ones; none where files are few.

    Not with equality deletes of other tools: which rows they delete is not known here.
    """
    if own.equality_deletes:
        return ()
    by_size = sorted(own.data, key=lambda file: (-file.size_bytes, file.location))
    first = first_to_merge([file.size_bytes for file in by_size], target_bytes, budget_bytes)
    return () if first is None else tuple(by_size[first:])


def are_deletes_merged(base: BucketFiles, deletes: int, *, left_over: bool) -> bool:
    """Whether the round's delete file takes in what the bucket's delete files say, which then go.

    `deletes`: rows that die in the round. `left_over`: whether deletes stand that delete nothing (`dead_rows`).
    """
    return left_over or (deletes > 0 and len(base.deletes) >= MANY_DELETE_FILES)
