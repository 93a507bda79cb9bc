"""What a lake offers for the upkeep of its tables: rewriting small files as fewer large ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from tiering.lake.base import FileRewrite, LakeView
from tiering.model.tables import BucketKey, TableInfo


@runtime_checkable
class FileMerging(Protocol):
    """A lake that merges small files of log tables. Every call may raise LakeUnavailable."""

    def merge_small_files(
        self,
        table: TableInfo,
        view: LakeView,
        buckets: Mapping[BucketKey, str | None],
        round_id: str,
        new_nonce: Callable[[], str],
        budget_bytes: int,
    ) -> Sequence[FileRewrite]:
        """Writes the newest small files of `buckets` (with their partitions' names) as one file a bucket, where there are too many.

        Nothing of it is visible before a commit with these rewrites, and such a commit leaves out what does not fit its base any more.
        Files that other tools wrote, and tables with deleted rows, are left alone. At most `budget_bytes` are read. Raises DataCorrupt
        for a file whose rows do not have the checksum of its footer.
        """
        ...
