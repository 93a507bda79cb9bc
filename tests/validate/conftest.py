"""A tiered log table, and ways to damage its lake copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.worlds.lake_world import LakeWorld
from tiering.model.tables import TableInfo


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    yield lake_world
    lake_world.close()


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """200 rows in two buckets, the first 100 to bucket 0; all are in the lake."""
    orders = world.table("orders")
    world.append(orders, 0, 200)
    world.tier(orders)
    return orders
