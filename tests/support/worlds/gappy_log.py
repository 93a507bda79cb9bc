"""A log some of whose offsets have no row, as batches without rows leave them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.lake_kinds.kinds import LakeKind
from support.worlds.lake_world import LakeWorld
from tiering.cluster.embedded.storage import EmbeddedStorage
from tiering.model.rounds import RoundState
from tiering.model.splits import TieringSplit
from tiering.model.tables import OFFSET_COLUMN, TableInfo

EMPTY = frozenset({0, 1, 4, 9, 10, 18, 19})
"""Offsets of bucket 0 of `two_rounds`: before all rows, among those of a round, around the end of one, and at the end of all."""


@dataclass(frozen=True)
class _Reader:
    reader: Any
    empty: frozenset[int]

    def read(self) -> Iterator[pa.RecordBatch]:
        for batch in self.reader.read():
            has_row = ~np.isin(batch.column(OFFSET_COLUMN).to_numpy(), list(self.empty))
            yield batch.filter(pa.array(has_row))


def without_rows_at(monkeypatch: pytest.MonkeyPatch, storage: EmbeddedStorage, empty: Mapping[int, range | frozenset[int]]) -> None:
    """Removes the rows at these offsets of the log tables from every later read, by bucket."""
    reader = storage.reader

    def gappy(table: TableInfo, split: TieringSplit) -> Any:
        offsets = empty.get(split.bucket.bucket_id)
        opened = reader(table, split)
        return opened if offsets is None else _Reader(opened, frozenset(offsets))

    monkeypatch.setattr(storage, "reader", gappy)


def gappy_world(folder: Path, kind: LakeKind, monkeypatch: pytest.MonkeyPatch) -> LakeWorld:
    """Returns a world in which reads of bucket 0 have no rows at the offsets EMPTY."""
    world = LakeWorld(folder, kind=kind)
    without_rows_at(monkeypatch, world.storage, {0: EMPTY})
    return world


def two_rounds(world: LakeWorld) -> TableInfo:
    """A log table, tiered twice, each time by 10 offsets a bucket."""
    orders = world.table("orders", log_ttl="1 h")
    for start in (0, 20):
        world.append(orders, start, 20)
        assert world.tier(orders).state is RoundState.SUCCEEDED
    return orders
