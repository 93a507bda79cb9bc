"""The begins of the logs of a partition's buckets. They distinguish its rows from those of a former partition of the same name.

Rows in a lake name their partition only by its values, and the rows of a dropped partition stay. Partition ids are never reused, and a
partition is dropped before another one of its name is created. So every row of the former partition is older than the first record of the
log. `lakeward validate` distinguishes them in the same way. Pure.

    committed at the begin's time or later     a row of the log
    older, at the begin's offset or above      a row of a former partition
    older, below the begin's offset            unknown, because the log was cut
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tiering.model.tables import BucketKey

Mask = npt.NDArray[np.bool_]


class RowOwner(Enum):
    """The partition to which rows in a lake belong."""

    THIS = "this"
    FORMER = "former"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class LogStart:
    """The first offset that a bucket's log holds, and the commit time of its record, in milliseconds since 1970-01-01 UTC.

    `time_ms` None: the log holds no record. The unit is milliseconds, because `__timestamp` of a Paimon table has no smaller unit.
    """

    offset: int
    time_ms: int | None

    def own(self, times_ms: npt.NDArray[Any]) -> Mask:
        """Returns a mask of the rows that the log wrote, by their commit times."""
        if self.time_ms is None:
            return np.zeros(len(times_ms), dtype=bool)
        return np.asarray(times_ms >= self.time_ms, dtype=bool)

    def unknown(self, offsets: npt.NDArray[Any], times_ms: npt.NDArray[Any]) -> Mask:
        """Returns a mask of the rows that either this log or a former one wrote."""
        return np.asarray(~self.own(times_ms) & (offsets < self.offset), dtype=bool)

    def owner(self, end: int, newest_ms: int) -> RowOwner:
        """Returns the owner of rows that one partition wrote. `end` is the offset behind the last row, `newest_ms` its commit time."""
        if self.time_ms is not None and newest_ms >= self.time_ms:
            return RowOwner.THIS
        return RowOwner.FORMER if end > self.offset else RowOwner.UNKNOWN


LogStarts = Mapping[BucketKey, LogStart]
"""The begins of the logs of living partitions' buckets. A bucket that is not in it has rows of only one log."""

NO_STARTS: LogStarts = MappingProxyType({})

_MICROSECONDS = 1_000
"""Microseconds in a millisecond."""


def to_ms(microseconds: int) -> int:
    """Returns milliseconds, rounded down."""
    return microseconds // _MICROSECONDS


def commit_times_ms(times: pa.Array[Any]) -> npt.NDArray[np.int64]:
    """Returns the commit times of rows in milliseconds since 1970-01-01 UTC, rounded down."""
    microseconds = pc.cast(times, pa.timestamp("us", times.type.tz)).cast(pa.int64())
    milliseconds: npt.NDArray[np.int64] = microseconds.to_numpy(zero_copy_only=False) // _MICROSECONDS
    return milliseconds
