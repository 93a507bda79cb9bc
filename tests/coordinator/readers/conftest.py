"""An embedded cluster with its coordinator and a lake, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fresh.held_logs import half_tiered
from support.worlds.lake_world import LakeWorld
from tiering.model.tables import TableInfo


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    yield lake_world
    lake_world.close()


@pytest.fixture
def table(world: LakeWorld) -> TableInfo:
    return half_tiered(world)
