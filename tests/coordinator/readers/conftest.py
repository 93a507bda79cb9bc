"""An embedded cluster with its coordinator and a lake, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.worlds.lake_world import LakeWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    yield lake_world
    lake_world.close()
