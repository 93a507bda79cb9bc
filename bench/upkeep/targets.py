"""The targets of a lake table that ages: what each says of the figures, and whether it is met."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from upkeep.checkpoints import AgedTable, Checkpoint

TIME_RATIO, SCAN_RATIO, IDEAL_RATIO = 1.2, 1.3, 1.2
SMALL_FILES_A_BUCKET = 8
METADATA_MB, MANIFESTS, UPKEEP_RATIO = 20, 100, 4
MB = 1_000_000


@dataclass(frozen=True)
class Target:
    """One upper bound, which `value` is compared with."""

    name: str
    value: float
    limit: float

    @property
    def verdict(self) -> str:
        """`met` or `missed`. A value that is no number misses every bound."""
        return "met" if math.isfinite(self.value) and self.value <= self.limit else "missed"

    @property
    def line(self) -> str:
        """The target as it is printed."""
        return f"target {self.name}: {self.value:,.2f} of at most {self.limit:,.1f}: {self.verdict}"


def targets_of(table: AgedTable) -> Iterator[Target]:
    """All targets of one table. Counts are bounds at every moment, so their largest counts; times are those of the last rounds."""
    points, last = table.checkpoints, table.checkpoints[-1]
    yield Target("round time, ratio to the first line", last.round_ratio, TIME_RATIO)
    yield Target("CPU time of a round, ratio to the first line", last.cpu_ratio, TIME_RATIO)
    yield Target("SELECT on sys, ratio to the first line", last.sys_ratio, TIME_RATIO)
    crowded = max(points, key=lambda point: point.health.data_files / _file_limit(point, table.buckets))
    yield Target("data files", crowded.health.data_files, _file_limit(crowded, table.buckets))
    yield Target("delete files", _largest(points, "delete_files"), table.buckets)
    yield Target("manifests of the head", _largest(points, "manifests"), MANIFESTS)
    yield Target("metadata on disk in MB", max(point.metadata_bytes for point in points) / MB, METADATA_MB)
    yield Target("bytes written for upkeep, ratio to those of the rows", last.upkeep_ratio, UPKEEP_RATIO)
    yield Target("rounds later than the freshness", table.late_rounds, 0)
    for reader, seconds in table.scans.items():
        yield Target(f"scan by {reader}, ratio to the compacted copy", seconds["ratio"], SCAN_RATIO)


def data_file_limit(data_bytes: int, target_bytes: int, buckets: int) -> float:
    """The ideal number of data files with its margin, and the small files of buckets that are being written to."""
    ideal = max(buckets, math.ceil(data_bytes / target_bytes))
    return IDEAL_RATIO * ideal + SMALL_FILES_A_BUCKET * buckets


def _file_limit(point: Checkpoint, buckets: int) -> float:
    return data_file_limit(point.health.data_bytes, point.health.target_bytes, buckets)


def _largest(points: Sequence[Checkpoint], name: str) -> float:
    return float(max(getattr(point.health, name) for point in points))
