from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.worlds.lake_world import LakeWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LakeWorld]:
    lake_world = LakeWorld(tmp_path)
    lake_world.clock.wall = datetime.now(UTC) + timedelta(days=2)  # files carry the machine's time
    yield lake_world
    lake_world.close()
