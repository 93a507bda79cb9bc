"""A tiered log table, and ways to damage its lake copy."""

from __future__ import annotations

import pytest

from support.worlds.lake_world import LakeWorld
from tiering.model.tables import TableInfo


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    """200 rows in two buckets, the first 100 to bucket 0; all are in the lake."""
    orders = world.table("orders")
    world.append(orders, 0, 200)
    world.tier(orders)
    return orders
