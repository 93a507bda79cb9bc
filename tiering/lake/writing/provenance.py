"""The totals that a writer of a clean lake table keeps of its rows, for the footers of its files and the marker (`tiering.lake.proof`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiering.lake.base import WriterInitContext
from tiering.lake.proof.file_footer import FileFooter, Run, encode_footer, sum_of, without
from tiering.lake.proof.row_checksum import row_checksum
from tiering.model.tables import BucketKey


class Provenance:
    """The totals of one attempt at one split. For a log table the caller gives the offsets first and then the rows, in the same order
    or, with `is_sorted`, in another order within a file."""

    def __init__(self, context: WriterInitContext, names: pa.Schema | None = None) -> None:
        """`names` as in `row_checksum`, for the rows of files."""
        self._context = context
        self.names = names
        self.changes: Run | None = None
        """For a primary-key table: the folded range of the log. Set before the first file ends."""
        self.folded: int | None = None
        """For a merge of sorted runs: the total of the old files (`FileFooter.folded`). Set before the first file ends."""
        self.is_sorted = False
        """Whether each file has its rows in the table's sort order. A file then ends where the collected rows end, so that its offsets are
        those of these rows."""
        self.start_over()

    def start_over(self) -> None:
        """Drops the totals of all rows."""
        self.checksum = 0
        """Checksum of all rows in files so far."""
        self._runs: list[Run] = []
        self._in_files = 0
        """Number of rows in the files that have ended."""
        self._rows = 0
        self._of_file = 0

    def take_offsets(self, offsets: npt.NDArray[Any]) -> None:
        """Takes the offsets of the next rows. They must grow."""
        if not len(offsets):
            return
        breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
        for first, end in zip((0, *breaks), (*breaks, len(offsets)), strict=True):
            start, stop = int(offsets[first]), int(offsets[end - 1]) + 1
            if self._runs and self._runs[-1][1] == start:
                self._runs[-1] = (self._runs[-1][0], stop)
            else:
                self._runs.append((start, stop))

    def add_rows(self, rows: pa.Table) -> None:
        """Takes the next rows of the open file."""
        checksum = row_checksum(rows, self.names)
        self._of_file = sum_of((self._of_file, checksum))
        self.checksum = sum_of((self.checksum, checksum))
        self._rows += rows.num_rows

    def end_file(self) -> FileFooter:
        """Returns the footer of the open file. The next row begins another file."""
        runs = () if self.changes is not None else _part(self._runs, self._in_files, self._rows)
        footer = replace(self._footer(self._rows, self._of_file, runs), folded=self.folded)
        self.folded = None if self.folded is None else 0  # the first file has the total of all files
        self._in_files += self._rows
        self._rows = self._of_file = 0
        return footer

    def footer_of_deletes(self, deletes: pa.Table) -> dict[str, str]:
        """Returns the footer of a position-delete file with these rows."""
        return encode_footer(self._footer(deletes.num_rows, row_checksum(deletes), ()))

    def _footer(self, rows: int, checksum: int, runs: tuple[Run, ...]) -> FileFooter:
        context = self._context
        return FileFooter(
            table_id=context.table.table_id,
            lake_table_uuid=context.lake_table_uuid,
            round_id=context.round_id,
            bucket=context.bucket,
            rows=rows,
            checksum=checksum,
            runs=runs,
            changes=self.changes,
            is_sorted=self.is_sorted,
            is_backfill=context.is_backfill,
        )

    def without_rows(self, start: int, stop: int) -> tuple[Run, ...]:
        """Returns those offsets of a log table's split `[start, stop)` that have no row."""
        return without(start, stop, self._runs)


def _part(runs: list[Run], skipped: int, count: int) -> tuple[Run, ...]:
    """Returns the runs of `count` rows behind the first `skipped` rows."""
    part: list[Run] = []
    for start, stop in runs:
        begin = start + min(skipped, stop - start)
        skipped -= begin - start
        end = min(stop, begin + count)
        count -= end - begin
        if end > begin:
            part.append((begin, end))
    return tuple(part)


def file_prefix(context: WriterInitContext) -> str:
    """Returns the prefix of the names of one attempt's files, which has the round id.

    `bucket_of_name` returns no bucket for the names of backfilled files.
    """
    partition = "" if context.bucket.partition_id is None else f"{context.bucket.partition_id}-"
    ending = "-backfill" if context.is_backfill else ""
    return f"lakeward-{context.round_id}-{context.attempt_nonce}-{partition}{context.bucket.bucket_id}{ending}"


def bucket_of_name(name: str, *, is_partitioned: bool) -> BucketKey | None:
    """Returns the bucket for which a round wrote the data file of this name; None for a file with another form of name."""
    parts = name.removesuffix(".parquet").split("-")
    numbers = parts[-3:] if is_partitioned else ["0", *parts[-2:]]
    is_ours = name.startswith("lakeward-") and name.endswith(".parquet") and len(parts) >= len(numbers) + 2
    if not is_ours or not all(part.isascii() and part.isdigit() for part in numbers):
        return None
    partition_id, bucket_id, _ = map(int, numbers)
    return BucketKey(partition_id if is_partitioned else None, bucket_id)
