"""A reader of splits for tests: it hands on the rows of another reader in small pieces, and may take its time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from tiering.cluster.base import SplitReader
from tiering.model.splits import TieringSplit

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@dataclass(frozen=True)
class PiecewiseReader:
    """A `SplitReader` of `rows` rows at a time. Its code travels with it to the worker, which has no tests.

    After each piece it touches the file `begun`, and pauses unless the file `gate` exists.
    """

    reader: SplitReader
    rows: int
    pause_seconds: float = 0.0
    begun: Path | None = None
    gate: Path | None = None

    @property
    def split(self) -> TieringSplit:
        return self.reader.split

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in self.reader.read():
            for start in range(0, batch.num_rows, self.rows):
                yield batch.slice(start, self.rows)
                if self.begun is not None:
                    self.begun.touch()
                if self.pause_seconds and (self.gate is None or not self.gate.exists()):
                    time.sleep(self.pause_seconds)

    def __reduce__(self) -> tuple[Any, ...]:
        values = (self.reader, self.rows, self.pause_seconds, self.begun, self.gate)
        return cloudpickle.loads, (cloudpickle.dumps(_Anew(values)),)


@dataclass(frozen=True)
class _Anew:
    """Becomes a PiecewiseReader where it is unpickled."""

    values: tuple[Any, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return PiecewiseReader, self.values
