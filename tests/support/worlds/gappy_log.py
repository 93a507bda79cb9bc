"""A log some of whose offsets have no row, as batches without rows leave them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.model.splits import TieringSplit
from tiering.model.tables import OFFSET_COLUMN, TableInfo


@dataclass(frozen=True)
class _Reader:
    reader: Any
    empty: frozenset[int]

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in self.reader.read():
            has_row = ~np.isin(batch.column(OFFSET_COLUMN).to_numpy(), list(self.empty))
            yield batch.filter(pa.array(has_row))


def without_rows_at(monkeypatch: pytest.MonkeyPatch, storage: EmbeddedStorage, empty: Mapping[int, range | frozenset[int]]) -> None:
    """From now on nobody reads a row at these offsets of the log tables there, by bucket."""
    reader = storage.reader

    def gappy(table: TableInfo, split: TieringSplit) -> Any:
        offsets = empty.get(split.bucket.bucket_id)
        opened = reader(table, split)
        return opened if offsets is None else _Reader(opened, frozenset(offsets))

    monkeypatch.setattr(storage, "reader", gappy)
