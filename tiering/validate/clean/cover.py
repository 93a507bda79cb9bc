"""Checks whether the files of a clean table are complete, without reading a row. The offsets of a log table's bucket must be in Lakeward's
files or in the marker's ranges without rows, each once. A primary-key bucket must have the files of all rounds. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from tiering.lake.proof.bucket_proof import BucketProof
from tiering.lake.proof.file_footer import FileFooter, sum_of
from tiering.validate.subject import Stretch


def cover_problem(stretch: Stretch, footers: Sequence[FileFooter], proof: BucketProof | None) -> str | None:
    """Returns the first problem, or None: an offset twice, outside, or in no file; files that do not add up to the marker's totals."""
    covered = [*(run for footer in footers for run in footer.runs), *stretch.empty]
    name, reached = f"bucket {stretch.name}", stretch.start
    for start, stop in sorted(covered):
        if start < reached:
            outside = f"{name}: a file has the offset {start}, which lies outside of [{stretch.start}, {stretch.tiered})"
            return outside if start < stretch.start else f"{name}: two files have the offset {start}"
        if start > reached:
            return f"{name}: no file has the offsets {reached} to {start - 1}"
        reached = stop
    if reached > stretch.tiered:
        return f"{name}: a file has the offset {reached - 1}, which lies outside of [{stretch.start}, {stretch.tiered})"
    if reached < stretch.tiered:
        return f"{name}: no file has the offsets {reached} to {stretch.tiered - 1}"
    return _sum_problem(name, stretch, footers, proof)


def overlap_problem(stretch: Stretch, footers: Iterable[FileFooter]) -> str | None:
    """Returns the problem of the remaining files of Lakeward in a bucket in which another program rewrote files, or None."""
    reached: int | None = None
    for start, stop in sorted(run for footer in footers for run in footer.runs):
        if reached is not None and start < reached:
            return f"bucket {stretch.name}: two files have the offset {start}"
        if start < stretch.start or stop > stretch.tiered:
            return f"bucket {stretch.name}: a file has offsets outside of [{stretch.start}, {stretch.tiered})"
        reached = stop
    return None


def has_overlap(footers: Iterable[FileFooter]) -> bool:
    """Returns whether two files have the same offset."""
    runs = sorted(run for footer in footers for run in footer.runs)
    return any(after[0] < before[1] for before, after in pairwise(runs))


def runs_problem(stretch: Stretch, footers: Iterable[FileFooter], proof: BucketProof) -> str | None:
    """Returns the problem of a primary-key bucket to which only rounds write, or None: a file that is missing, or there twice."""
    checksum = sum_of(footer.written_checksum for footer in footers)
    if checksum == proof.checksum:
        return None
    return (
        f"bucket {stretch.name}: the footers of its files add up to the checksum {checksum:016x}, the marker to {proof.checksum:016x}: "
        "files of rounds are missing, or there twice"
    )


def _sum_problem(name: str, stretch: Stretch, footers: Sequence[FileFooter], proof: BucketProof | None) -> str | None:
    if proof is None or proof.since != stretch.start:
        return None
    rows, checksum = sum(footer.rows for footer in footers), sum_of(footer.checksum for footer in footers)
    if (rows, checksum) == (proof.rows, proof.checksum):
        return None
    return (
        f"{name}: the footers of its files add up to {rows} rows with the checksum {checksum:016x}, the marker to {proof.rows} with "
        f"{proof.checksum:016x}"
    )
