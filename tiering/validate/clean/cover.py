"""Whether files of ours and the marker's ranges without rows cover the offsets of a log table's bucket, each once; and whether a
primary-key bucket has the files of all rounds. Pure: no row is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from tiering.lake.proof.bucket_proof import BucketProof
from tiering.lake.proof.file_footer import FileFooter, sum_of
from tiering.validate.subject import Stretch


def cover_problem(stretch: Stretch, footers: Sequence[FileFooter], proof: BucketProof | None) -> str | None:
    """What is wrong first: an offset twice, outside, or in no file; files that do not add up to what the marker counted."""
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
    """What is wrong with those files of a bucket that are left, where somebody wrote others anew."""
    reached: int | None = None
    for start, stop in sorted(run for footer in footers for run in footer.runs):
        if reached is not None and start < reached:
            return f"bucket {stretch.name}: two files have the offset {start}"
        if start < stretch.start or stop > stretch.tiered:
            return f"bucket {stretch.name}: a file has offsets outside of [{stretch.start}, {stretch.tiered})"
        reached = stop
    return None


def has_overlap(footers: Iterable[FileFooter]) -> bool:
    """Whether two files have the same offset."""
    runs = sorted(run for footer in footers for run in footer.runs)
    return any(after[0] < before[1] for before, after in pairwise(runs))


def runs_problem(stretch: Stretch, footers: Iterable[FileFooter], proof: BucketProof) -> str | None:
    """What is wrong with the files of a primary-key bucket that rounds alone write: one that is missing, or there twice."""
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
