"""The health of a lake table as a number from 0 to 100, with the reasons for a lower score. Pure.

A freshly compacted table has 100. Each finding takes points away. The points grow with the distance of a measure from its healthy bound, up
to a maximum. So the score never rises while a measure grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import floor

from tiering.counts import counted
from tiering.lake.health.measure import FileTotals, LakeMeasure

BEST = 100
POOR_SCORE, ILL_SCORE = 90, 60
"""Below POOR_SCORE, upkeep has work to do. Below ILL_SCORE, a scan takes a multiple of its normal time."""

FILE_POINTS = 60
"""Maximum of the points for small files. Opening files is the largest cost of a scan."""

DEAD_ROW_POINTS = 25
DEAD_SHARE_BOUND = 0.1
"""Share of deleted rows that hardly slows a scan."""
WORST_DEAD_SHARE = 0.6
"""Share of deleted rows that takes away all DEAD_ROW_POINTS."""

DELETE_FILE_POINTS = 15
"""Maximum of the points for delete files. The healthy bound is one delete file for each bucket."""

METADATA_POINTS = 20
METADATA_BYTES_BOUND = 20_000_000

MANIFEST_POINTS = 10
MANIFEST_BOUND = 100
"""Rounds merge small manifests at about this number."""

SNAPSHOT_POINTS = 10
SNAPSHOT_BOUND = 1_000
"""Expiry keeps about 100 snapshots a day, and a user may keep them for days."""


class Cause(StrEnum):
    """A measure that can lower a score."""

    SMALL_FILES = "small files"
    DEAD_ROWS = "deleted rows"
    DELETE_FILES = "delete files"
    METADATA = "metadata files"
    MANIFESTS = "manifests"
    SNAPSHOTS = "snapshots"


@dataclass(frozen=True)
class HealthScore:
    """A score with its reasons. `reason` names them, the worst first. `cause` is the worst one. Both are None at 100."""

    score: int
    reason: str | None
    cause: Cause | None = None


@dataclass(frozen=True)
class Finding:
    """A reason that lowers the score by `points`."""

    cause: Cause
    points: float
    text: str


def score_of(measure: LakeMeasure) -> HealthScore:
    """Returns the score of a lake table. An unknown measure takes no points away."""
    files = measure.files
    findings = [
        _small_files(files),
        _dead_rows(files),
        _delete_files(files),
        _metadata(measure),
        _manifests(measure),
        _snapshots(measure),
    ]
    findings = sorted((finding for finding in findings if finding.points > 0), key=lambda finding: -finding.points)
    if not findings:
        return HealthScore(BEST, None)
    points = sum(finding.points for finding in findings)
    # At least one point: 100 means that there is nothing to do.
    return HealthScore(max(0, min(BEST - 1, floor(BEST - points))), "; ".join(finding.text for finding in findings), findings[0].cause)


def _share(excess: float) -> float:
    """Returns the share of the points for a measure that exceeds its bound by `excess` times: a half for 1, nearly all for 20."""
    return excess / (1 + excess)


def _above(value: float, bound: float) -> float:
    return max(0.0, value - bound) / bound


def _small_files(files: FileTotals) -> Finding:
    needed, healthy = max(1, files.ideal_files), max(1, files.healthy_files)
    places = f"{counted(files.crowded_files, 'small file')} in {counted(files.crowded_buckets, 'bucket')}"
    text = f"{places}: a scan opens {_times(files.data_files / needed)} as many files as needed"
    return Finding(Cause.SMALL_FILES, FILE_POINTS * _share(files.surplus_files / healthy), text)


def _dead_rows(files: FileTotals) -> Finding:
    share = files.dead_share or 0.0
    part = min(1.0, max(0.0, share - DEAD_SHARE_BOUND) / (WORST_DEAD_SHARE - DEAD_SHARE_BOUND))
    return Finding(Cause.DEAD_ROWS, DEAD_ROW_POINTS * part, f"{100 * share:.0f} % of the rows are deleted: a scan reads and drops them")


def _delete_files(files: FileTotals) -> Finding:
    buckets = max(1, files.buckets)
    text = f"{counted(files.delete_files, 'delete file')} for {counted(buckets, 'bucket')}: a scan reads them beside the data files"
    return Finding(Cause.DELETE_FILES, DELETE_FILE_POINTS * _share(_above(files.delete_files, buckets)), text)


def _metadata(measure: LakeMeasure) -> Finding:
    size, bound = measure.metadata_bytes / 1_000_000, METADATA_BYTES_BOUND / 1_000_000
    text = f"{size:,.0f} MB in {counted(measure.metadata_files, 'metadata file')}, {bound:.0f} MB are healthy"
    return Finding(Cause.METADATA, METADATA_POINTS * _share(_above(measure.metadata_bytes, METADATA_BYTES_BOUND)), text)


def _manifests(measure: LakeMeasure) -> Finding:
    text = f"{counted(measure.manifests, 'manifest')}: the plan of a scan reads all of them"
    return Finding(Cause.MANIFESTS, MANIFEST_POINTS * _share(_above(measure.manifests, MANIFEST_BOUND)), text)


def _snapshots(measure: LakeMeasure) -> Finding:
    text = f"{counted(measure.snapshots, 'snapshot')}: old ones keep files that no scan of the newest reads"
    return Finding(Cause.SNAPSHOTS, SNAPSHOT_POINTS * _share(_above(measure.snapshots, SNAPSHOT_BOUND)), text)


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.1f} times".replace(".0 ", " ")
