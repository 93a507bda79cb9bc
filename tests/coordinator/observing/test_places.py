"""The number of partitions of a table and the location of its lake copy are observed beside its lag."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from support.worlds.lake_world import LakeWorld
from tiering.cluster.log_writer import LogWriter
from tiering.model.rounds import RoundState


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[LakeWorld]:
    new_world = LakeWorld(tmp_path)
    yield new_world
    new_world.close()


def test_location_and_partitions_are_what_was_seen_last(lakes: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([pa.field("region", pa.string(), nullable=False), pa.field("id", pa.int64())])
    table = lakes.table("visits", 1, ("region",), schema)
    plain = replace(table, partition_keys=())
    assert dict(lakes.coordinator.view().partition_counts([table])) == {table.table_id: 0}
    assert dict(lakes.coordinator.view().partition_counts([plain, replace(table, table_id=99)])) == {}
    assert lakes.coordinator.view().lake_location(table.table_id) is None
    writer = LogWriter(lakes.storage, table.path, "test")
    for region in ("eu", "us", "eu"):
        writer.append(pa.table({"region": [region], "id": [1]}, schema=schema))
    assert lakes.tier(table).state is RoundState.SUCCEEDED
    lakes.coordinator.observer.observe_all()
    lakes.coordinator.observer.measure_lakes()
    monkeypatch.setattr(lakes.lake, "view", None)  # who looks asks the lake nothing
    view = lakes.coordinator.view()
    assert dict(view.partition_counts([table])) == {table.table_id: 2}
    assert view.lake_location(table.table_id) == lakes.iceberg(table).location()
    assert view.lake_location(99) is None
    lakes.restart()
    assert lakes.coordinator.view().lake_location(table.table_id) == lakes.iceberg(table).location()
